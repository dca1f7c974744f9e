"""A client's program (tests/clients/README.md): how it is installed, started, told what to do and listened to."""

import atexit
import queue
import subprocess
import threading
from pathlib import Path

from suites_support.suite import SKIPPED, demand, skip

CLIENTS = Path(__file__).resolve().parent.parent / "clients"
LEAVE_SECONDS = 30


class Client:
    """A client that is installed. `lacks` names the codecs that it does not have, and what it has no way to administer."""

    def __init__(self, name, lacks=()):
        done = subprocess.run([CLIENTS / name / "install"], capture_output=True, text=True)
        if done.returncode == SKIPPED:
            skip(f"{name} cannot be fetched: {done.stderr.strip()[-200:]}")
        demand(done.returncode == 0, f"{name} cannot be installed:\n{done.stderr}")
        self.name = name
        self.lacks = lacks
        self.command = done.stdout.splitlines()

    def start(self, node, log, *arguments):
        return Process([*self.command, node.kafka, *arguments], log)


class Process:
    """One run of a program. What it prints is kept; what it says on standard error goes to `log`."""

    def __init__(self, command, log):
        self.what = " ".join(command[-4:])
        self.log = log
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self._lines = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        atexit.register(self.kill)

    def _listen(self):
        for line in self.process.stdout:
            # What a kill cut off was not said.
            if line.endswith("\n"):
                self._lines.put(line)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line, seconds=60):
        """The words of the one line with which the program answers."""
        self.say(line)
        try:
            return self._lines.get(timeout=seconds).split()
        except queue.Empty:
            self.demand_alive()
            demand(False, f"{self.what}: no answer to {line!r} in {seconds} s{self.errors()}")

    def lines(self):
        """What was printed since the last time, as lists of words."""
        return [line.split() for line in self.texts()]

    def texts(self):
        """What was printed since the last time, whole lines."""
        found = []
        while not self._lines.empty():
            found.append(self._lines.get())
        return found

    def demand_alive(self):
        code = self.process.poll()
        demand(code is None, f"{self.what}: ended by itself with {code}{self.errors()}")

    def kill(self):
        self.process.kill()
        self._ended()

    def leave(self, exit_code=0):
        """SIGTERM: the program ends in order."""
        self.process.terminate()
        self._demand_end("SIGTERM", exit_code)

    def end_input(self):
        """Tells the program to end, without waiting for that."""
        self.process.stdin.close()

    def finish(self):
        """The end of its input: the program ends in order."""
        self.process.stdin.close()
        self._demand_end("the end of its input")

    def _demand_end(self, why, exit_code=0):
        try:
            code = self.process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            demand(False, f"{self.what}: {why} has not ended it in {LEAVE_SECONDS} s{self.errors()}")
        self._ended()
        demand(code == exit_code, f"{self.what}: after {why} it exited with {code}{self.errors()}")

    def _ended(self):
        self.process.wait()
        self._listener.join()
        atexit.unregister(self.kill)

    def errors(self, lines=30):
        with open(self.log, errors="replace") as log:
            return ":\n" + "".join(log.readlines()[-lines:])
