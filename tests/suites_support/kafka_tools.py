"""Kafka's command-line tools, each started as its script in Kafka's package starts it."""

import os
import subprocess
from pathlib import Path

from suites_support.client_program import Process
from suites_support.suite import demand, skip

TOOL_SECONDS = 120
CONFIGS = "kafka.admin.ConfigCommand"
TOOLS = "org.apache.kafka.tools."
INSTALL = Path(__file__).resolve().parent.parent.parent / "bench/peers/kafka/install"


class Tools:
    def __init__(self, node):
        installed = subprocess.run([INSTALL], capture_output=True, text=True)
        if installed.returncode != 0:
            skip(f"Kafka's tools cannot be fetched: {installed.stderr.strip()[-200:]}")
        jars = installed.stdout.strip()
        # One compiler and one collector thread: a tool lives for a second.
        self.java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars + "/*"]
        self.node = node
        self._share_classes(Path(jars + ".classes"))

    def _share_classes(self, archive):
        """Most of that second is spent on loading classes: they are kept in a form that need not be parsed again."""
        if not archive.exists():
            part = Path(f"{archive}.{os.getpid()}")
            command = self._command(TOOLS + "TopicCommand", ["--list"])
            subprocess.run([command[0], f"-XX:ArchiveClassesAtExit={part}", *command[1:]], capture_output=True)
            if part.exists():
                part.replace(archive)
        # A machine that cannot use it does without.
        self.java.insert(1, f"-XX:SharedArchiveFile={archive}")

    def _command(self, tool, arguments):
        node = ["--bootstrap-server", self.node.kafka]
        # kafka-cluster wants its subcommand first, others want it last.
        arguments = [*arguments, *node] if tool.endswith("ClusterTool") else [*node, *arguments]
        return [*self.java, tool, *arguments]

    def run(self, tool, *arguments, given=None):
        """The exit code and everything that the tool said; `given` is what it is told on standard input."""
        silent = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
        done = subprocess.run(self._command(tool, arguments), capture_output=True, text=True, timeout=TOOL_SECONDS, **silent)
        return done.returncode, done.stdout + done.stderr

    def works(self, tool, *arguments, given=None):
        code, text = self.run(tool, *arguments, given=given)
        demand(code == 0, f"{tool} {arguments} ended with {code}:\n{text}")
        return text

    def is_refused(self, words, tool, *arguments):
        code, text = self.run(tool, *arguments)
        demand(code != 0, f"{tool} {arguments} was not refused:\n{text}")
        demand(all(word in text for word in words), f"{tool} {arguments} was not told {words}:\n{text}")

    def says(self, words, tool, *arguments):
        """Some tools say what is wrong and exit with 0 all the same."""
        _, text = self.run(tool, *arguments)
        says(text, *words)
        return text

    def start(self, log, tool, *arguments):
        """A tool that runs on, as a `Process`."""
        return Process(self._command(tool, arguments), log)


def says(text, *words):
    for word in words:
        demand(word in text, f"{word!r} is missing in:\n{text}")
