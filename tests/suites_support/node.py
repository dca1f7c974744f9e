"""A `ropewalk serve` process on ports of its own, which stay the same over restarts: clients live on through them."""

import atexit
import fcntl
import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from suites_support import bounds
from suites_support.suite import Violation, demand, wait_until

START_SECONDS = 60
DRAIN_SECONDS = 40

# So small that files are laid out, recycled and checkpointed all the time.
TINY = {
    "cores": "2",
    "journal.file_bytes": "4MiB",
    "journal.bytes_max": "16MiB",
    "journal.layout_trigger": "2MiB",
    "disk.reserve_bytes": "0",
}


_PORTS = []


def free_port():
    """A port that nobody has, below the range from which the system takes those of clients. It stays this process's own while
    nobody listens at it: a node that is down for a moment is not robbed of it by a suite that runs beside this one."""
    claims = Path(tempfile.gettempdir()) / "ropewalk-ports"
    claims.mkdir(exist_ok=True)
    while True:
        port = random.SystemRandom().randrange(15000, 30000)
        claim = open(claims / str(port), "w")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                probe.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
        _PORTS.append(claim)
        return port


class Node:
    """`settings` are keys of `ropewalk config`; `host` is where it listens. `wrapper`, here or at one start, is a command that runs the binary, as strace does. Whenever a process of
    it ends, by `kill` or by `stop`, it is held to the bounds of `bounds`; `unbounded` names why it is not."""

    def __init__(self, data, log, settings=None, unbounded=None, host="127.0.0.1", wrapper=()):
        self.wrapper = wrapper
        self.unbounded = unbounded
        # Another build than the one under test.
        self.binary = None
        self.is_kafka = False
        # The rows of the memory table that are made use of; all unless told.
        self.rows = None
        # Those that its topics have together, if they are many.
        self.partitions = 0
        self.data = data
        self.log = log
        self.settings = dict(TINY if settings is None else settings)
        self.kafka = f"{host}:{free_port()}"
        self.http = f"{host}:{free_port()}"
        # All nodes of a cluster have this, too.
        self.nodes = [self]
        self.process = None
        self._core_times = []
        self._is_ready = False
        atexit.register(self._take_away)

    def launch(self, wrapper=()):
        """Starts the process without waiting for it."""
        assert self.process is None, "the last process is taken away first"
        binary = self.binary or os.environ["ROPEWALK_BINARY"]
        command = [*self.wrapper, *wrapper, binary, "serve", "--data", str(self.data)]
        command += ["--kafka", self.kafka, "--http", self.http]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        # A panic's message is worth more in the log's tail than sixty frames of the runtime.
        environment = {**os.environ, "RUST_BACKTRACE": "0"}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def start(self, wrapper=(), until="/ready"):
        """Starts the process and waits until it is ready, or just answers (`until="/health"`); gives the seconds that
        took."""
        began = time.monotonic()
        self.launch(wrapper)
        try:
            wait_until(lambda: self._well_or_gone(until), START_SECONDS, f"the node says that all is well on {until}")
        except Violation as violation:
            raise Violation(f"{violation}; {self.readiness()}\n{self.log_tail()}") from None
        self._is_ready = True
        self._watch_cores()
        return time.monotonic() - began

    def advertise(self, address):
        """Clients are told this address in place of its own from the next start on."""
        self.settings["kafka.advertised"] = address

    def restart(self):
        self.stop()
        self.start()

    def leader_of(self, _topic, _partition):
        return self

    def demand_replicas(self, _topic):
        """The only node has all that there is."""

    def lose(self, node):
        """kill -9 of one of `nodes`. Nobody goes on without the only one, so it is started again."""
        node.kill()
        self.make_whole()

    def make_whole(self):
        if self.process is None:
            self.start()

    def _well_or_gone(self, path):
        code = self.process.poll()
        demand(code is None, f"the node ended with {code} instead of starting:\n{self.log_tail()}")
        return self.readiness(path)[0] == 200

    def readiness(self, path="/ready"):
        """The code of `/ready` and the reasons it gives; 0 when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=5) as answer:
                return answer.status, []
        except urllib.error.HTTPError as error:
            return error.code, json.load(error).get("reasons", [])
        except OSError as error:
            return 0, [str(error)]

    def adopted_files(self):
        """How many journal files are segments at least: those that are more than the journals may have themselves."""
        size = {"KiB": 1 << 10, "MiB": 1 << 20}
        file_bytes, bytes_max = (int(self.settings[key][:-3]) * size[self.settings[key][-3:]]
                                 for key in ("journal.file_bytes", "journal.bytes_max"))
        files = len(list(self.data.rglob("*.journal")))
        own = int(self.settings["cores"]) * (bytes_max // file_bytes + 1)
        return max(0, files - own)

    def figure(self, name, together=sum):
        """A metric's values of all labels, together: their sum, or their max."""
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        values = [line.rsplit(" ", 1)[1] for line in lines if line.startswith((name + "{", name + " "))]
        demand(values, f"there is no metric {name}")
        return together(float(value) for value in values)

    def ask_http(self, method, path, content=None):
        """The JSON that a request is answered with, if it is, whose body is JSON too."""
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"http://{self.http}{path}", body, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            told = answer.read()
        return json.loads(told) if told else None

    def core_seconds(self):
        """The processor time of the cores' threads together since the process began."""
        return sum(int(os.pread(times, 64, 0).split()[0]) for times in self._core_times) / 1e9

    def _watch_cores(self):
        tasks = Path(f"/proc/{self.process.pid}/task")
        self._core_times = [os.open(task / "schedstat", os.O_RDONLY) for task in tasks.iterdir()
                            if re.fullmatch(r"core-\d+\n", (task / "comm").read_text())]

    def descriptors(self):
        """How many files and sockets the process has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self, peak=False):
        """The process's resident bytes: now, or the most since `forget_peak`; none if it is about to end."""
        name = "VmHWM:" if peak else "VmRSS:"
        with open(f"/proc/{self.process.pid}/status") as status:
            return next((int(line.split()[1]) << 10 for line in status if line.startswith(name)), 0)

    def forget_peak(self):
        self.check_memory()
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as control:
            control.write("5")

    def signal(self, number):
        self.process.send_signal(number)

    def check_memory(self):
        """The process has never had more memory than its settings allow."""
        if self.unbounded is None:
            allowed = bounds.Bounds(self.settings).memory_bytes(self.rows, self.partitions)
            bounds.check_memory(self.memory(peak=True), allowed, self.log.name)

    def check_turns(self):
        """No core has kept all of its clients waiting for one."""
        if self.unbounded is None:
            bounds.check_turns(self.figure(bounds.LONGEST_TURN, max), self.log_tail())

    def kill(self):
        """kill -9, as often as one likes."""
        if self._lives():
            self.check_memory()
            # One that is killed while it starts has served nobody, and one that is in distress may not answer.
            if self._is_ready and self.readiness("/health")[0] == 200:
                self.check_turns()
        self._take_away()

    def _lives(self):
        return self.process is not None and self.process.poll() is None

    def _take_away(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self._forget()

    def _forget(self):
        for times in self._core_times:
            os.close(times)
        self.process, self._core_times, self._is_ready = None, [], False

    def stop(self):
        """SIGTERM: the node answers what is under way and exits 0."""
        self.check_memory()
        self.check_turns()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(DRAIN_SECONDS)
        except subprocess.TimeoutExpired:
            raise Violation(f"SIGTERM has not ended the node in {DRAIN_SECONDS} s:\n{self.log_tail()}") from None
        self._forget()
        demand(code == 0, f"after SIGTERM the node exited with {code}:\n{self.log_tail()}")

    def demand_alive(self):
        """The node must not have ended by itself."""
        code = self.process.poll()
        demand(code is None, f"the node ended by itself with {code}:\n{self.log_tail()}")

    def log_tail(self, lines=40):
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-lines:])
