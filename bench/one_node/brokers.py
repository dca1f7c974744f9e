"""The brokers under measurement: one Ropewalk node and one Kafka node, each a process of ours with a directory of its own.

A `Node` is the process, a `Broker` is a node as one column of the tables sees it: Kafka without flush and Kafka with a
flush for each batch are two brokers of one node.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

KAFKA_RUN = pathlib.Path(__file__).resolve().parent.parent / "peers/kafka/run"
# Kafka keeps a deleted topic's files for a minute; the disk would fill with them.
KAFKA_SETTINGS = ["log.segment.delete.delay.ms=1000"]
READY_WITHIN_S = 300


class NotReady(Exception):
    """A broker did not come up; the message says which and where its log is."""


def free_port():
    """A free port whose successor is free too: Kafka's controller takes that one."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
                return port
            except (OSError, OverflowError):
                continue


class RopewalkNode:
    kind = "ropewalk"

    def __init__(self, binary, directory):
        self.binary, self.data, self.log = binary, directory / "ropewalk", directory / "ropewalk.log"
        self.port, self.http_port, self.process, self.pid = free_port(), free_port(), None, None
        self.flags = ["--data", str(self.data), "--kafka", f"127.0.0.1:{self.port}", "--http", f"127.0.0.1:{self.http_port}"]

    def start(self):
        """Returns once /ready says yes."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen([self.binary, "serve", *self.flags], stdout=log, stderr=log)
        self.pid = self.process.pid
        end = time.monotonic() + READY_WITHIN_S
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise NotReady(f"ropewalk is not ready: {self.log.read_text()[-500:]}")
            time.sleep(0.001)

    def is_ready(self):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/ready", timeout=5).status == 200
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.pid = None

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def settings(self):
        """The version, and every key of the configuration; `changed` are those that are not the default."""
        version = subprocess.run([self.binary, "-V"], capture_output=True, text=True).stdout.strip()
        shown = subprocess.run([self.binary, "config", *self.flags, "--json"], capture_output=True, text=True)
        keys = json.loads(shown.stdout) if shown.returncode == 0 else []
        return {
            "version": version,
            "changed": {key["key"]: key["value"] for key in keys if key["source"] != "default"},
            "settings": {key["key"]: key["value"] for key in keys},
        }


class KafkaNode:
    kind = "kafka"

    def __init__(self, directory):
        self.data, self.port, self.process, self.pid = directory / "kafka", free_port(), None, None
        self.settings_of_run = []

    def start(self):
        """Returns once Kafka says that it has started; `run` looks every 100 ms."""
        command = [str(KAFKA_RUN), str(self.port), str(self.data), *KAFKA_SETTINGS, *self.settings_of_run]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ready = re.match(r"ready \S+ pid (\d+)", self.process.stdout.readline())
        if not ready:
            raise NotReady(f"Kafka is not ready: {self.process.communicate()[1][-500:]}")
        self.pid = int(ready[1])

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        # The script that started it notices, and ends too.
        self.process.wait(60)
        self.pid = None

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def settings(self):
        java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.splitlines()
        properties = (self.data / "server.properties").read_text().splitlines()
        return {
            "version": re.search(r"real Kafka (\S+)", KAFKA_RUN.read_text())[1],
            "java": java[1] if len(java) > 1 else "unknown",
            "heap": os.environ.get("HEAP", "1g"),
            "settings": dict(line.split("=", 1) for line in properties if "=" in line),
        }


class Broker:
    """One column of the tables: a node, and the configs that every topic measured on it gets."""

    def __init__(self, name, node, topic_configs):
        self.name, self.node, self.topic_configs, self.topics = name, node, topic_configs, 0

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.node.port}"

    @property
    def pid(self):
        return self.node.pid

    @property
    def is_ropewalk(self):
        return self.node.kind == "ropewalk"

    def new_topic_name(self):
        self.topics += 1
        return f"row-{self.name.replace(',', '').replace(' ', '-')}-{self.topics}"


def why_no_kafka():
    """Why Kafka and its tools cannot be run here, or None."""
    missing = [tool for tool in ("java", "mvn") if not shutil.which(tool)]
    return f"{' and '.join(missing)} missing" if missing else None


def start_brokers(binary, directory):
    """Ropewalk, and Kafka where it can be had; those that run already are stopped if the next one fails.

    Kafka that is there but does not start is an error: a table without it would look complete.
    """
    brokers = [Broker("ropewalk", RopewalkNode(binary, directory), [])]
    reason = why_no_kafka()
    try:
        brokers[0].node.start()
        if reason is None:
            kafka = KafkaNode(directory)
            brokers.append(Broker("kafka, default", kafka, []))
            brokers.append(Broker("kafka, flush each", kafka, ["flush.messages=1"]))
            kafka.start()
    except BaseException:
        stop_brokers(brokers)
        raise
    if reason is not None:
        print(f"SKIPPED: Kafka is left out: {reason}", file=sys.stderr)
    return brokers


def stop_brokers(brokers):
    for node in {id(broker.node): broker.node for broker in brokers}.values():
        node.stop()
