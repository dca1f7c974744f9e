"""What a node promises of itself whoever its clients are: its memory stays within the table of docs/operating.md, and no turn of
a core keeps others waiting. `Node` holds each of its processes to both, in every suite."""

import contextlib
import json
import os
import re
import subprocess
from pathlib import Path

from suites_support.suite import demand

OPERATING = Path(__file__).resolve().parent.parent.parent / "docs/operating.md"
MEBI = 1 << 20
_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": MEBI, "GiB": 1 << 30}
# The program itself with its threads and their stacks, and what an allocator keeps of what it is given back.
PROCESS_BYTES = 64 * MEBI
ALLOCATOR_FACTOR = 1.25
LONGEST_TURN = "ropewalk_longest_turn_seconds"
# The aim is 20 ms, above which the node counts a turn as long. Descriptions of ten thousand partitions, and fetches of very many small
# batches, take up to 30 ms now and then; a slower machine takes longer.
LONGEST_TURN_SECONDS = 0.1

# The rows of the table, and what each is at most by the node's settings.
ROWS = {
    "caches": lambda size, cores: size("cache.tail_bytes") + size("cache.chunk_bytes"),
    "requests and answers": lambda size, cores: (cores + 1) * (size("limits.in_flight_bytes_per_core") + size("limits.answer_bytes_per_core")),
    "small requests": lambda size, cores: 128 * (1 << 10) * size("limits.connections"),
    "compaction": lambda size, cores: cores * (size("compaction.key_map_bytes") + 12 * MEBI),
    "fetch sessions": lambda size, cores: cores * size("limits.fetch_session_bytes_per_core"),
    "HTTP connections": lambda size, cores: (256 + 16) * 64 * (1 << 10),
    "consumer groups": lambda size, cores: cores * (512 + 64) * MEBI,
    "idempotent producers": lambda size, cores: cores * size("producers.bytes_per_journal"),
}


class Bounds:
    """What the processes of a node may take, by its settings."""

    def __init__(self, settings):
        self.rows = rows_of(settings)

    def memory_bytes(self, rows=None):
        """The most that a process may ever have had, if only these rows of the table were made use of."""
        used = self.rows if rows is None else {name: self.rows[name] for name in rows if name in self.rows}
        return int(ALLOCATOR_FACTOR * sum(used.values())) + PROCESS_BYTES


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


def check_memory(peak_bytes, bound_bytes, what):
    demand(peak_bytes <= bound_bytes, f"{what}: the node had {peak_bytes >> 20} MiB; its settings allow {bound_bytes >> 20} MiB")


def check_turns(longest_seconds, log_tail):
    demand(longest_seconds <= LONGEST_TURN_SECONDS,
           f"a turn of a core took {longest_seconds * 1e3:.0f} ms of its thread's time, {LONGEST_TURN_SECONDS * 1e3:.0f} are allowed:\n{log_tail}")
