"""Consumer groups after kill -9: how long until the node knows all of them again.

One Ropewalk node of its own. Groups commit for so long that what they said fills segments and is compacted; then the node is
killed, started, and asked until it lists every group. It grows from kill to kill.
"""
import json
import shutil
import sys
import time
import urllib.request

from one_node.brokers import Broker, NotReady, RopewalkNode
from one_node.clients import Failed
from one_node.compaction import figure
from one_node.restart import stored_gb

# As many as one page of the list holds.
GROUPS = 10_000
TOPIC = "committed"
LISTED_WITHIN_S = 120
LOOK_PAUSE_S = 0.002


def listed_groups(node):
    """How many groups the node lists; none while it cannot say."""
    url = f"http://127.0.0.1:{node.http_port}/v1/groups?limit={GROUPS}"
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return len(json.load(response)["groups"])
    except OSError:
        return 0


def run(node, client, commit_seconds):
    """Commits, one kill -9, one start."""
    commits = client.own("commit", Broker(node.kind, node, []), TOPIC, "--groups", GROUPS, "--seconds", commit_seconds)
    known = {"compactions": figure(node, "passes_total"), "stored_gb": stored_gb(node)}
    node.kill()
    began = time.monotonic()
    node.start()
    ready_s = time.monotonic() - began
    while listed_groups(node) < GROUPS:
        if time.monotonic() > began + LISTED_WITHIN_S:
            raise Failed(f"{listed_groups(node)} of {GROUPS} groups are listed after {LISTED_WITHIN_S} s")
        time.sleep(LOOK_PAUSE_S)
    listed_s = time.monotonic() - began
    figures = {"commits": commits["commits"], "commits_per_s": commits["commits_per_s"], **known}
    return figures | {"ready_s": ready_s, "listed_s": listed_s}


def measure(binary, directory, client, commit_seconds, repetitions):
    """One row for each kill."""
    node, rows = RopewalkNode(binary, directory), []
    try:
        node.start()
        for repetition in range(repetitions):
            rows.append(run(node, client, commit_seconds))
            print(f"groups: {repetition + 1} of {repetitions}", file=sys.stderr)
    except (Failed, NotReady) as failure:
        rows.append({"failed": str(failure)})
    finally:
        node.stop()
        shutil.rmtree(node.data, ignore_errors=True)
    return rows
