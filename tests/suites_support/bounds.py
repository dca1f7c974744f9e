"""What a node promises of itself whoever its clients are: its memory stays within the table of docs/operating.md, and no turn of
a core keeps others waiting. `Node` holds each of its processes to both, and `Watch` those that other programs start."""

import contextlib
import json
import os
import re
import subprocess
import threading
import urllib.request
from pathlib import Path

from suites_support.suite import demand

OPERATING = Path(__file__).resolve().parent.parent.parent / "docs/operating.md"
MEBI = 1 << 20
_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": MEBI, "GiB": 1 << 30}
# The program itself with its threads and their stacks, and what an allocator keeps of what it is given back.
PROCESS_BYTES = 64 * MEBI
ALLOCATOR_FACTOR = 1.25
PARTITION_BYTES = 5 << 10
LONGEST_TURN = "ropewalk_longest_turn_seconds"
# The aim is 20 ms, above which the node counts a turn as long. The rest is for processors that are slower than those where it was met, or busy with others: 30 ms were seen once.
LONGEST_TURN_SECONDS = 0.04

# The rows of the table, and what each is at most by the node's settings.
ROWS = {
    "caches": lambda size, cores: size("cache.tail_bytes") + size("cache.chunk_bytes"),
    "requests and answers": lambda size, cores: (cores + 1) * (size("limits.in_flight_bytes_per_core") + size("limits.answer_bytes_per_core")),
    "small requests": lambda size, cores: 128 * (1 << 10) * size("limits.connections"),
    "compaction": lambda size, cores: cores * (size("compaction.key_map_bytes") + 12 * MEBI),
    "fetch sessions": lambda size, cores: cores * size("limits.fetch_session_bytes_per_core"),
    "HTTP connections": lambda size, cores: 2 * (256 + 16) * 64 * (1 << 10) + 8 * 4 * (1 << 20),
    "consumer groups": lambda size, cores: cores * (512 + 64) * MEBI,
    "topics": lambda size, cores: cores * size("limits.metadata_bytes_per_core"),
    "idempotent producers": lambda size, cores: cores * size("producers.bytes_per_journal"),
}


class Bounds:
    """What the processes of a node may take, by its settings."""

    def __init__(self, settings):
        self.rows = rows_of(settings)

    def memory_bytes(self, rows=None, partitions=0):
        """The most that a process with so many partitions may ever have had, if only these rows of the table were made use of."""
        used = self.rows if rows is None else {name: self.rows[name] for name in rows if name in self.rows}
        return int(ALLOCATOR_FACTOR * (sum(used.values()) + partitions * PARTITION_BYTES)) + PROCESS_BYTES


def rows_of(settings):
    """Each row of the table in bytes, for a node with these settings beside the defaults."""
    command = [os.environ["ROPEWALK_BINARY"], "config", "--json"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    values = {key["key"]: key["value"] for key in told}
    cores = int(values["cores"]) or len(os.sched_getaffinity(0))
    rows = {}
    for name, row in ROWS.items():
        # What a node has no setting for is not bounded by one, and has no row.
        with contextlib.suppress(KeyError):
            rows[name] = row(lambda key: bytes_of(values[key]), cores)
    return rows


def bytes_of(text):
    """A size or a number as the configuration writes them."""
    number, unit = re.fullmatch(r"([\d,]+) ?([KMG]iB|B)?", str(text)).groups()
    return int(number.replace(",", "")) * _SIZES[unit or "B"]


def rows_told():
    """The table of docs/operating.md: each row's name and its bytes with 4 cores."""
    cells = re.findall(r"^\| ([A-Za-z ]+?) \|.*\| ([\d,]+ [KMG]iB) \|$", OPERATING.read_text(), re.MULTILINE)
    return {name: bytes_of(size) for name, size in cells}


def allowance_told():
    """The factor, and the bytes of the process and of each partition, which docs/operating.md tells beside the table."""
    told = re.search(r"bounded by ([\d.]+) times the sum of these rows, and (\d+ MiB).*with (\d+ KiB) each", OPERATING.read_text(), re.DOTALL)
    demand(told, "docs/operating.md does not tell what a node may have beside the sum of the table")
    return float(told[1]), bytes_of(told[2]), bytes_of(told[3])


class Watch:
    """Holds all nodes to their bounds that this process or a program that it started begins within the block. Each is looked at until
    it ends, and its last look counts."""

    PAUSE_SECONDS = 0.05

    def __init__(self):
        self.peaks, self.longest_turns, self._commands = {}, {}, {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, failure, *_):
        self._is_over.set()
        self._thread.join()
        if failure is None:
            self.check()

    def check(self):
        demand(self.peaks and self.longest_turns, "no node was seen")
        for process, peak in self.peaks.items():
            settings = dict(self._commands[process][at + 1].split("=", 1)
                            for at, word in enumerate(self._commands[process]) if word == "--set")
            check_memory(peak, Bounds(settings).memory_bytes(), " ".join(self._commands[process]))
        for process, seconds in self.longest_turns.items():
            check_turns(seconds, " ".join(self._commands[process]))

    def _look_on(self):
        while not self._is_over.wait(self.PAUSE_SECONDS):
            for process in _descendants(os.getpid()):
                # It may end at any moment.
                with contextlib.suppress(OSError, ValueError, TypeError):
                    self._look(process)

    def _look(self, process):
        command = Path(f"/proc/{process}/cmdline").read_text().split("\0")
        if Path(command[0]).name != Path(os.environ["ROPEWALK_BINARY"]).name or command[1:2] != ["serve"]:
            return
        self._commands[process] = command
        status = Path(f"/proc/{process}/status").read_text()
        self.peaks[process] = int(re.search(r"^VmHWM:\s+(\d+)", status, re.MULTILINE)[1]) << 10
        address = command[command.index("--http") + 1]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
            turns = re.findall(rf"^{LONGEST_TURN}\{{.*\}} (\S+)$", answer.read().decode(), re.MULTILINE)
        self.longest_turns[process] = max(map(float, turns))


def _descendants(process):
    """The processes that this one started, and those that they did."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(entry.name))
    found = []
    wanted = [process]
    while wanted:
        below = children.get(wanted.pop(), [])
        found += below
        wanted += below
    return found


def check_memory(peak_bytes, bound_bytes, what):
    demand(peak_bytes <= bound_bytes, f"{what}: the node had {peak_bytes >> 20} MiB; its settings allow {bound_bytes >> 20} MiB")


def check_turns(longest_seconds, log_tail):
    demand(longest_seconds <= LONGEST_TURN_SECONDS,
           f"a turn of a core took {longest_seconds * 1e3:.0f} ms of its thread's time, {LONGEST_TURN_SECONDS * 1e3:.0f} are allowed:\n{log_tail}")
