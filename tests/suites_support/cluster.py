"""Three `ropewalk serve` processes that are one cluster: the first founds it, the others join. It has the methods of `Node` that suites of clients call."""

from concurrent.futures import ThreadPoolExecutor

from suites_support.load import client
from suites_support.node import TINY, Node, free_port
from suites_support.suite import demand, wait_until

from confluent_kafka.admin import AdminClient


class Cluster:
    """`kafka` has the addresses of all nodes: clients find whichever is there."""

    is_kafka = False

    def __init__(self, work, count=3, settings=None, network=None):
        """With `network`, each node has a namespace of its own there (`network.py`)."""
        self.work, self.settings, self.network = work, settings or TINY, network
        self.nodes = []
        for _ in range(count):
            self._add()
        self.is_founded = False
        self.kafka = ",".join(node.kafka for node in self.nodes)

    def _add(self):
        number = len(self.nodes) + 1
        folder = self.work / f"node-{number}"
        folder.mkdir()
        host = self.network.host(number) if self.network else "127.0.0.1"
        own = {**self.settings, "peer.listen": f"{host}:{free_port()}"}
        if self.nodes:
            own["cluster.join"] = ",".join(node.settings["peer.listen"] for node in self.nodes)
        wrapper = self.network.inside(number) if self.network else ()
        self.nodes.append(Node(folder / "data", folder / "node.log", own, host=host, wrapper=wrapper))
        return self.nodes[-1]

    def join_another(self):
        """One more node, with an empty directory: it has the next number."""
        self._add().start()

    def start(self):
        """The first time, one after the other: so they get their ids in this order. Later beside each other, for two of three are needed to start any."""
        if not self.is_founded:
            for node in self.nodes:
                node.start()
            self._wait_until_all_vote()
            self.is_founded = True
            return
        down = [node for node in self.nodes if node.process is None]
        with ThreadPoolExecutor(len(down)) as starters:
            # Takes the outcomes, too.
            list(starters.map(lambda node: node.start(), down))

    def _wait_until_all_vote(self, seconds=30):
        """Waits until three nodes have a vote about the metadata: before, the founder must not go. Nothing but the log tells when the change is complete."""
        changed = "the metadata group's members have changed step=AddVoters"
        wait_until(lambda: any(changed in node.log.read_text(errors="replace") for node in self.nodes), seconds, "the joined nodes have a vote")

    def lose(self, node):
        """kill -9 of one node. Clients go on with the others until `make_whole`."""
        node.kill()

    def make_whole(self):
        if any(node.process is None for node in self.nodes):
            self.start()

    def stop(self):
        for node in self.nodes:
            node.stop()

    def restart(self):
        """A rolling restart: one node after the other, each in order. Afterwards no leader changes any more, nor a group's coordinator."""
        for node in self.nodes:
            node.restart()
        wait_until(lambda: not self._led_by_others(), 30, "each partition is led by its first replica again", lambda: str(self._led_by_others()))

    def _led_by_others(self):
        """Partitions that another replica leads than the first: the topic, the leader and the replicas of each."""
        topics = AdminClient(client(self)).list_topics(timeout=30).topics
        places = [(topic, each) for topic, found in topics.items() for each in found.partitions.values()]
        return [(topic, each.id, each.leader, each.replicas) for topic, each in places if each.leader != each.replicas[0]]

    def leader_of(self, topic, partition):
        return self.nodes[self.leaders(topic)[partition]]

    def demand_replicas(self, topic):
        """Each node has a replica of each partition: else the loss of one would prove little."""
        counts = wait_until(lambda: [len(found.replicas) for found in self._partitions(topic).values()], 30, f"{topic} is there")
        demand(set(counts) == {len(self.nodes)}, f"the partitions of {topic} have {counts} replicas")

    def leaders(self, topic):
        """The node that leads each partition, as an index of `nodes`; none for a partition without a leader."""
        return {partition: found.leader - 1 for partition, found in self._partitions(topic).items()}

    def _partitions(self, topic):
        return AdminClient(client(self)).list_topics(topic, timeout=30).topics[topic].partitions

    def wait_until_led_by_others(self, topic, away, seconds=30):
        """Waits until no partition is led by a node that is away."""
        wait_until(lambda: away not in self.leaders(topic).values(), seconds, f"{topic} is led by others than node {away + 1}")
