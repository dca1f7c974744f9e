"""What suites of clients run against: a node of ours; a real Kafka, so that one sees whose fault a failure is; or three nodes of one cluster."""

import atexit
import os
import signal
import subprocess
from pathlib import Path

from suites_support.cluster import Cluster
from suites_support.node import Node, free_port
from suites_support.suite import demand, wait_until

RUN = Path(__file__).resolve().parent.parent.parent / "bench/peers/kafka/run"
SETTINGS = ["auto.create.topics.enable=false", "offsets.topic.num.partitions=1", "group.min.session.timeout.ms=1000",
            "group.consumer.session.timeout.ms=3000", "group.consumer.min.session.timeout.ms=3000", "group.consumer.heartbeat.interval.ms=500",
            "group.consumer.min.heartbeat.interval.ms=500", "message.timestamp.type=CreateTime", "transaction.state.log.num.partitions=4",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms=500"]


def node_in(work, settings):
    """A node of ours; or, with ROPEWALK_AGAINST, a real Kafka (`kafka`) or three nodes (`cluster`)."""
    against = os.environ.get("ROPEWALK_AGAINST")
    if against == "kafka":
        return KafkaNode(work)
    if against == "cluster":
        return Cluster(work, settings=settings)
    return Node(work / "data", work / "node.log", settings)


class KafkaNode:
    """Has the methods of `Node` that suites of clients call."""

    def __init__(self, work):
        self.work = work
        self.data = work / "data"
        # Its controller takes the next port.
        self.port = free_port()
        self.kafka = f"127.0.0.1:{self.port}"
        self.process = self.server = None
        self.settings = list(SETTINGS)
        self.is_kafka = True
        self.nodes = [self]
        atexit.register(self.kill)

    def start(self):
        said = self.work / "kafka.said"
        with open(said, "wb") as out:
            self.process = subprocess.Popen([RUN, str(self.port), self.data, *self.settings], stdout=out, stderr=out,
                                            stdin=subprocess.DEVNULL, env={**os.environ, "HEAP": "384m"})

        def ready():
            demand(self.process.poll() is None, f"Kafka has ended:\n{said.read_text()}")
            # Before, it may complain that there is no log yet.
            return "ready " in said.read_text()

        wait_until(ready, 180, "Kafka is ready")
        self.server = int(said.read_text().split()[-1])

    def advertise(self, address):
        self.settings.append(f"advertised.listeners=PLAINTEXT://{address}")

    def signal(self, number):
        os.kill(self.server, number)

    def restart(self):
        self.stop()
        self.start()

    def leader_of(self, _topic, _partition):
        return self

    def demand_replicas(self, _topic):
        pass

    def lose(self, _node):
        self.kill()
        self.make_whole()

    def make_whole(self):
        if self.process is None:
            self.start()

    def kill(self):
        self._end(signal.SIGKILL)

    def stop(self):
        self._end(signal.SIGTERM)

    def _end(self, how):
        if self.server is not None:
            os.kill(self.server, how)
            # Its script ends with it.
            self.process.wait()
            self.process = self.server = None
