"""Following: how long after its acknowledgement `ropewalk consume --follow` prints a record.

One Ropewalk node of its own. This process appends records one by one over HTTP, each to any of the topic's partitions, and
reads what the consumer prints, which is another process. It is acknowledged when the first byte of the answer is there; a record
that is printed before counts as 0, and how many were is told.
"""
import http.client
import queue
import random
import select
import shutil
import subprocess
import sys
import threading
import time

from one_node.brokers import Broker, NotReady, RopewalkNode
from one_node.clients import Failed, output_of
from one_node.percentiles import percentiles_us

PARTITIONS = [1, 1000]
RECORDS_PER_S_OF_A_ROW = 500
WARM_UP_RECORDS = 100
# A record is not always to meet the same moment of a fetch.
PAUSE_MAX_S = 0.002
PRINTED_WITHIN_S = 60


class Follower:
    """A consumer that runs until it is closed; `printed` has each line with when it came."""

    def __init__(self, binary, broker, topic, log):
        self.printed, self.log = queue.SimpleQueue(), log
        command = [binary, "consume", topic, "--from", "earliest", "--follow", "--bootstrap", broker.bootstrap]
        with log.open("w") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.printed.put((line.strip(), time.perf_counter()))

    def wait_for(self, value):
        try:
            line, at = self.printed.get(timeout=PRINTED_WITHIN_S)
        except queue.Empty:
            raise Failed(f"{value} was not printed within {PRINTED_WITHIN_S} s: {self.log.read_text()[-300:]}") from None
        if line != value:
            raise Failed(f"{line} was printed, and not {value}")
        return at

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


def append(connection, topic, partition, value):
    """When the node had answered that the record is durable."""
    path = f"/v1/topics/{topic}/partitions/{partition}/records"
    connection.request("POST", path, body=value, headers={"Content-Type": "application/octet-stream"})
    if not select.select([connection.sock], [], [], PRINTED_WITHIN_S)[0]:
        raise Failed(f"an append was not answered within {PRINTED_WITHIN_S} s")
    acknowledged = time.perf_counter()
    response = connection.getresponse()
    answer = response.read()
    if response.status // 100 != 2:
        raise Failed(f"an append was answered {response.status}: {answer[-300:]}")
    return acknowledged


def row(binary, node, partitions, samples, log):
    broker, topic = Broker(node.kind, node, []), f"followed-{partitions}"
    output_of([binary, "topic", "create", topic, "--bootstrap", broker.bootstrap, "--partitions", partitions])
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=PRINTED_WITHIN_S)
    follower = Follower(binary, broker, topic, log)
    try:
        late = []
        for number in range(WARM_UP_RECORDS + samples):
            value = b"%d" % number
            acknowledged = append(connection, topic, random.randrange(partitions), value)
            late.append(max(0, follower.wait_for(value) - acknowledged))
            time.sleep(random.uniform(0, PAUSE_MAX_S))
        late = late[WARM_UP_RECORDS:]
        before = 100 * late.count(0) / len(late)
        return {"partitions": partitions, "samples": samples, "printed_before_percent": round(before), **percentiles_us(late)}
    finally:
        follower.close()
        connection.close()


def measure(binary, directory, seconds):
    """One row for each number of partitions that are followed."""
    node, rows = RopewalkNode(binary, directory), []
    try:
        node.start()
        for partitions in PARTITIONS:
            rows.append(row(binary, node, partitions, int(RECORDS_PER_S_OF_A_ROW * seconds), directory / "follow.log"))
            print(f"follow: {partitions} partitions", file=sys.stderr)
    except (Failed, NotReady, OSError) as failure:
        rows.append({"failed": str(failure)})
    finally:
        node.stop()
        shutil.rmtree(node.data, ignore_errors=True)
    return rows
