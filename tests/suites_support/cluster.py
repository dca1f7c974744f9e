"""Three `ropewalk serve` processes that are one cluster: the first founds it, the others join. It has the methods of `Node` that suites of clients call."""

from concurrent.futures import ThreadPoolExecutor

from suites_support.load import client
from suites_support.node import TINY, Node, free_port
from suites_support.suite import wait_until

from confluent_kafka.admin import AdminClient


class Cluster:
    """`kafka` has the addresses of all nodes: clients find whichever is there."""

    is_kafka = False

    def __init__(self, work, count=3, settings=None):
        founder = f"127.0.0.1:{free_port()}"
        self.nodes = []
        for number in range(1, count + 1):
            folder = work / f"node-{number}"
            folder.mkdir()
            own = {**(settings or TINY), "peer.listen": founder if number == 1 else f"127.0.0.1:{free_port()}"}
            if number > 1:
                own["cluster.join"] = founder
            self.nodes.append(Node(folder / "data", folder / "node.log", own))
        self.is_founded = False
        self.kafka = ",".join(node.kafka for node in self.nodes)

    def start(self):
        """The first time, one after the other: so they get their ids in this order. Later beside each other, for two of three are needed to start any."""
        if not self.is_founded:
            for node in self.nodes:
                node.start()
            self.is_founded = True
            return
        down = [node for node in self.nodes if node.process is None]
        with ThreadPoolExecutor(len(down)) as starters:
            # Takes the outcomes, too.
            list(starters.map(lambda node: node.start(), down))

    def stop(self):
        for node in self.nodes:
            node.stop()

    def restart(self):
        """A rolling restart: one node after the other, each in order."""
        for node in self.nodes:
            node.restart()

    def leader_of(self, topic, partition):
        return self.nodes[self.leaders(topic)[partition]]

    def leaders(self, topic):
        """The node that leads each partition, as an index of `nodes`; none for a partition without a leader."""
        partitions = AdminClient(client(self)).list_topics(topic, timeout=30).topics[topic].partitions
        return {partition: found.leader - 1 for partition, found in partitions.items()}

    def wait_until_led_by_others(self, topic, away, seconds=30):
        """Waits until no partition is led by a node that is away."""
        wait_until(lambda: away not in self.leaders(topic).values(), seconds, f"{topic} is led by others than node {away + 1}")
