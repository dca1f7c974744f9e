"""Programs of Kafka Connect, its workers and MirrorMaker 2, each started as its script in Kafka's package starts it. `tests/connect` fetches them."""

import subprocess
import time
from pathlib import Path

from suites_support.client_program import Process
from suites_support.suite import SKIPPED, demand, skip, wait_until

INSTALL = Path(__file__).resolve().parent.parent / "connect/install"
CLI = "org.apache.kafka.connect.cli."
MIRROR = "org.apache.kafka.connect.mirror."
LOGGING = """
rootLogger.level = WARN
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = [%d] %p %m (%c)%n
"""


class Worker:
    """A program with its settings in `files`, name -> text with places for `values`; it is given them in this order. Its log goes on over its starts."""

    def __init__(self, work, program, files, **values):
        installed = subprocess.run([INSTALL], capture_output=True, text=True)
        if installed.returncode == SKIPPED:
            skip(f"Connect cannot be fetched: {installed.stderr.strip()[-200:]}")
        demand(installed.returncode == 0, installed.stderr)
        for name, text in {**files, "log4j2": LOGGING}.items():
            (work / f"{name}.properties").write_text(text.format(work=work, **values))
        self.log = work / "connect.log"
        self.command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", installed.stdout.strip() + "/*",
                        f"-Dlog4j2.configurationFile={work}/log4j2.properties", program, *(f"{work}/{name}.properties" for name in files)]
        self.process = None

    def start(self):
        self.process = Process(self.command, self.log)

    def kill(self):
        self.process.kill()

    def wait_until(self, condition, seconds, what, and_tell=lambda: ""):
        """Waits while the program must be alive, at a pace that leaves the machine to it."""

        def asked():
            self.process.demand_alive()
            time.sleep(0.1)
            return condition()

        return wait_until(asked, seconds, what, lambda: f"{and_tell()}{self.process.errors()}")

    def stop(self):
        self.process.leave(exit_code=143)
