"""A network of a suite's own, whose every direction can be cut, made lossy or late: one namespace for each node, one for the suite with its
clients, and a switch between them (`switch.py`). It needs TUN devices and no other module of the kernel: netem is not everywhere.

A suite calls `begin_apart` before anything else. Nothing of the machine's own network is touched, and all of it goes with the suite.
"""

import atexit
import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

from suites_support.suite import skip

SUBNET = "198.18.0"
FIRST_ADDRESS = 10
# Large, so that the switch has few packets to carry.
PACKET_BYTES = 9000
# The suite's own place.
CLIENTS = 0

_APART = "ROPEWALK_APART"
_TUNSETIFF = 0x400454CA
_IFF_TUN_NO_HEADER = 0x1001


def begin_apart():
    """Begins the suite anew in a network namespace of its own. Skips it where there can be none."""
    lacked = begin_apart_if_possible()
    if lacked:
        skip(lacked)


def begin_apart_if_possible():
    """Begins the suite anew in a network namespace of its own; tells why there can be none."""
    if _APART in os.environ:
        _run("ip", "link", "set", "lo", "up")
        return None
    for tool in ("unshare", "nsenter", "ip", "ss"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    tried = subprocess.run(["unshare", "--net", "ip", "tuntap", "add", "tried", "mode", "tun"], capture_output=True, text=True)
    if tried.returncode != 0:
        return f"no network namespaces, or no TUN devices, are allowed here: {tried.stderr.strip()}"
    command = ["unshare", "--net", sys.executable, "-B", *sys.argv]
    os.execvpe(command[0], command, {**os.environ, _APART: "1"})


def both_ways(some, others):
    """The pairs of places whose packets go from one of these to one of those, or back."""
    return [(begin, end) for begin in some for end in others] + [(end, begin) for begin in some for end in others]


class Network:
    """Places are numbered: 0 is the suite's, the nodes' are 1 and so on, as their ids are."""

    def __init__(self, seed, nodes):
        self.places = range(nodes + 1)
        # Each namespace lives as long as its holder, and that until the suite ends.
        self._holders = [None, *(_hold_namespace() for _ in range(nodes))]
        descriptors = [self._join(place) for place in self.places]
        program = Path(__file__).with_name("switch.py")
        command = [sys.executable, "-B", program, str(seed), str(FIRST_ADDRESS), *map(str, descriptors)]
        self._switch = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=descriptors)
        atexit.register(self._switch.kill)
        for descriptor in descriptors:
            os.close(descriptor)

    def host(self, place):
        return f"{SUBNET}.{FIRST_ADDRESS + place}"

    def inside(self, place):
        """The words that run a command in the namespace of a place."""
        holder = self._holders[place]
        return ["nsenter", f"--net=/proc/{holder.pid}/ns/net"] if holder else []

    def rule(self, pairs, lost=0.0, late=0.0):
        """Sets the fate of packets from one place to another; all others are carried at once. Gives how many each pair had lost before."""
        told = {f"{begin} {end}": {"lost": lost, "late": late} for begin, end in pairs}
        self._switch.stdin.write(json.dumps(told) + "\n")
        self._switch.stdin.flush()
        lost_before = json.loads(self._switch.stdout.readline())
        return {tuple(map(int, pair.split())): count for pair, count in lost_before.items()}

    def heal(self):
        return self.rule([])

    def break_connections(self, place):
        """Ends every connection of a place, as a router does that has forgotten them: both ends are told by a reset."""
        _run(*self.inside(place), "ss", "--no-header", "--kill", "state", "established")

    def take_link(self, place, is_up):
        _run(*self.inside(place), "ip", "link", "set", f"place{place}", "up" if is_up else "down")

    def _join(self, place):
        """A TUN device in the namespace of a place; gives its descriptor."""
        name = f"place{place}"
        try:
            descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
            fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN_NO_HEADER))
            if self._holders[place]:
                _run("ip", "link", "set", name, "netns", str(self._holders[place].pid))
            inside = self.inside(place)
            _run(*inside, "ip", "link", "set", "lo", "up")
            _run(*inside, "ip", "address", "add", f"{self.host(place)}/24", "dev", name)
            _run(*inside, "ip", "link", "set", name, "mtu", str(PACKET_BYTES), "up")
        except OSError as error:
            skip(f"no TUN device can be had here: {error}")
        return descriptor


def _hold_namespace():
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(holder.kill)
    # Only once it is in the namespace does it say something.
    holder.stdout.readline()
    return holder


def _run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
