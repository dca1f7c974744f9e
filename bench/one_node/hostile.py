"""Clients that do nothing wrong beside those that do: the p99 of what they ask for, before and during each attack.

One Ropewalk node for each attack. Attacks and the requests beside them are those of the suite `hostile_clients`, which counts and
asserts no time.
"""
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests"))

from suites_support import attacks, attacks_http
from suites_support.attacks import Attack
from suites_support.node import Node
from suites_support.suite import Violation
from suites_support.victim import Victim

ASKED = ["append 100 B", "append 100 KB", "append 900 KB", "fetch 100 KB", "heartbeat and commit", "/health"]
# Of each kind, for each of the seconds that a row lasts.
SAMPLES_PER_S = 100
WITHIN = 2


def p99_us(times):
    return times[min(len(times) - 1, len(times) * 99 // 100)] * 1e6


def row(kind, directory, samples):
    data = directory / "hostile"
    node = Node(data, directory / "hostile.log", {}, unbounded="its figures are what is wanted, whatever they are")
    name = Attack.name_of(kind)
    try:
        node.start()
        attacks.prepare(node)
        victim = Victim(node)
        before = victim.measure(samples)
        attack = Attack(node, kind)
        attack.wait_for_worst()
        during = victim.measure(samples)
        attack.finish()
        victim.finish()
        p99s = {asked: (p99_us(before[asked][1]), p99_us(during[asked][1])) for asked in ASKED}
        return {"attack": name, "samples": samples, "p99_us": p99s, "worst_factor": max(with_it / alone for alone, with_it in p99s.values())}
    except (Violation, OSError) as failure:
        return {"attack": name, "failed": str(failure).splitlines()[0]}
    finally:
        node.kill()
        shutil.rmtree(data, ignore_errors=True)


def measure(binary, directory, seconds):
    """One row for each attack."""
    os.environ["ROPEWALK_BINARY"] = str(binary)
    rows = []
    for kind in attacks.ALL + attacks_http.ALL:
        rows.append(row(kind, directory, int(SAMPLES_PER_S * seconds)))
        print(f"hostile: {rows[-1]['attack']}", file=sys.stderr)
    return rows
