#!/usr/bin/env python3
"""The switch of `network.py`, as a program: it takes each packet from the TUN device of one place and hands it to that of another, unless
the rule of the two says that it is lost or late. It knows addresses and nothing of what the packets are about.

    switch.py SEED FIRST_ADDRESS DESCRIPTOR...

The place behind the n-th descriptor has the n-th address. Each line of its input is a JSON object that replaces all rules: `"1 2"` names what goes from
place 1 to place 2, and has `lost` (0 to 1) and `late` (seconds). A line of its output says how many packets each pair has lost since it began.
"""

import heapq
import json
import os
import random
import selectors
import sys
import time
from collections import Counter

PACKET_MAX = 65536
# Packets taken from one place before the next has its turn.
TURN = 64
# Late packets that one pair may have on their way; more are lost, as in a router.
LATE_MAX = 2000
COMMANDS = 0


class Switch:
    def __init__(self, seed, first_address, descriptors):
        self.chance = random.Random(seed)
        self.first_address, self.descriptors = first_address, descriptors
        self.rules, self.lost, self.late = {}, Counter(), []
        self.waiting, self.taken = Counter(), 0
        self.heard = b""

    def run(self):
        selector = selectors.DefaultSelector()
        selector.register(COMMANDS, selectors.EVENT_READ)
        for place, descriptor in enumerate(self.descriptors):
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ, place)
        while True:
            pause = max(0, self.late[0][0] - time.monotonic()) if self.late else None
            for key, _ in selector.select(pause):
                if key.fd == COMMANDS:
                    self.obey()
                else:
                    self.take_from(key.data)
            self.hand_over_due()

    def obey(self):
        """New rules, or the end of whoever gave them."""
        piece = os.read(COMMANDS, PACKET_MAX)
        if not piece:
            sys.exit()
        *lines, self.heard = (self.heard + piece).split(b"\n")
        for line in lines:
            told = json.loads(line)
            self.rules = {tuple(map(int, pair.split())): (rule["lost"], rule["late"]) for pair, rule in told.items()}
            print(json.dumps({f"{begin} {end}": count for (begin, end), count in self.lost.items()}), flush=True)

    def take_from(self, place):
        for _ in range(TURN):
            try:
                packet = os.read(self.descriptors[place], PACKET_MAX)
            except OSError:
                # None left, or the device is down.
                return
            # Only IPv4: the last byte of its destination is the place.
            if len(packet) >= 20 and packet[0] >> 4 == 4:
                end = packet[19] - self.first_address
                if 0 <= end < len(self.descriptors):
                    self.carry(place, end, packet)

    def carry(self, begin, end, packet):
        lost, late = self.rules.get((begin, end), (0, 0))
        if lost and self.chance.random() < lost or self.waiting[begin, end] >= LATE_MAX:
            self.lost[begin, end] += 1
        elif late:
            self.taken += 1
            self.waiting[begin, end] += 1
            heapq.heappush(self.late, (time.monotonic() + late, self.taken, begin, end, packet))
        else:
            self.hand_over(end, packet)

    def hand_over_due(self):
        while self.late and self.late[0][0] <= time.monotonic():
            _, _, begin, end, packet = heapq.heappop(self.late)
            self.waiting[begin, end] -= 1
            self.hand_over(end, packet)

    def hand_over(self, end, packet):
        try:
            os.write(self.descriptors[end], packet)
        except OSError:
            # The device is down, or takes no more: a lost packet.
            pass


if __name__ == "__main__":
    Switch(int(sys.argv[1]), int(sys.argv[2]), [int(number) for number in sys.argv[3:]]).run()
