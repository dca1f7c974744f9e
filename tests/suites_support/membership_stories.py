"""More stories of a client's group, told like that of `client_story`: members that are static, a live group that turns from the
classic to the consumer protocol and back, and members that ask for a regular expression and an assignor of the coordinator's.
"""

from suites_support.client_story import PARTITIONS, SETTINGS, WITHIN_KILLED_NODE, WITHIN_REBALANCE, Story
from suites_support.suite import demand

CLASSIC = "cooperative-sticky"
CONSUMER = "consumer"
# The session of static members (tests/clients/README.md): nobody's place is given away while it is started again.
STATIC_SESSION = 60


class StaticMembers(Story):
    """Who comes back under its name before its session is over finds what it had, and nobody else's partitions move."""

    settings = {**SETTINGS, "groups.consumer_session_timeout": f"{STATIC_SESSION}s"}

    def _live(self):
        for instance in ("warp", "weft"):
            self._start_member(self.protocol, instance)
        self._wait_for_members("two static ones joined")
        self._write_more()
        self._settle()
        self._demand_each_once("with static members")
        places = self._places()
        demand(set(places) == {"warp", "weft"}, f"the group has the members {places}")
        self.writing = True
        # By the consumer protocol the name of a member that was killed is not given back before its session is over.
        for end in (self._leave, self._leave) if self.protocol == CONSUMER else (self._kill, self._leave):
            end(self.members[0])
            self._demand_places(places, f"after {end.__name__}")
            self._start_member(self.protocol, "warp")
            self._wait_for_more("a static member came back", STATIC_SESSION)
            self._demand_places(places, "after it came back")
            # The first is always "warp".
            self.members.reverse()
        self._kill_under_load(self._coordinator())
        self._demand_places(places, "after the node was killed")
        self._start_twice(places)
        self.writing = False
        self._settle(WITHIN_KILLED_NODE)

    def _start_twice(self, places):
        """Of two processes under one name one has to end: by the classic protocol the earlier is fenced, by the other one the later
        is refused."""
        first = self.members[0]
        second = self._start_member(self.protocol, "warp")
        loser = second if self.protocol == CONSUMER else first
        self.members.remove(loser)
        self._wait(lambda: loser[1].process.poll() is not None, "one of two of the same name has ended", WITHIN_REBALANCE)
        self.ledger.take_told(loser[0], loser[1].lines())
        word = "UnreleasedInstanceId" if loser is second else "FencedInstanceId"
        demand(word in loser[1].errors(), f"it ended for another reason than {word}{loser[1].errors()}")
        self._wait_for_more("one of two of the same name has ended")
        self._demand_places(places, "after one of two of the same name ended")

    def _places(self):
        """The partitions of each static member, by its name."""
        told = {}

        def at_rest():
            told.clear()
            found = self.witness.described()
            for member in found.members if found else []:
                given = member.assignment.topic_partitions if member.assignment else []
                told[member.group_instance_id] = sorted(place.partition for place in given)
            return sum(len(given) for given in told.values()) > 0

        self._wait(at_rest, "the places of static members are told", WITHIN_REBALANCE)
        return told

    def _demand_places(self, places, when):
        self._wait(lambda: self._places() == places, f"the places are {places} {when}", WITHIN_REBALANCE)


class ChangeOver(Story):
    """A live group goes over from the classic protocol to the consumer protocol, member by member, and back again."""

    def _live(self):
        self.protocol = CLASSIC
        self._join(2)
        self._write_more()
        self._settle()
        self._demand_each_once("before the change")
        demand(self._type() == "classic", "it is no classic group")
        self.writing = True
        self._replace_all(CONSUMER, "consumer")
        self._replace_all(CLASSIC, "classic")
        self.writing = False
        self._settle()

    def _replace_all(self, protocol, kind):
        """Each member is replaced by one of another protocol; in the middle of it the group's coordinator dies."""
        self.protocol = protocol
        old = list(self.members)
        for number, member in enumerate(old):
            self._join(1)
            self._wait_for_more(f"one came by {protocol}")
            if number == 0:
                self._kill_under_load(self._coordinator())
                self._wait_for_members("the node was killed", WITHIN_KILLED_NODE)
            self._leave(member)
            self._wait_for_members(f"one left for one by {protocol}")
            self._wait_for_more(f"one left for one by {protocol}")
        demand(self._type() == kind, f"after all went over to {protocol} the group is {self._type()}")

    def _type(self):
        return self._coordinator().ask_http("GET", f"/v1/groups/{self.group}")["type"]


class Pattern(Story):
    """Members subscribe by a regular expression before there is a topic that matches. One of them asks for the assignor `range`, the
    others for none: then it is that of all."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.topic, self.subscription = "ribbons-late", "^ribbons-[a-z]+$"

    def _live(self):
        self._start_member(f"{CONSUMER}:range")
        self._start_member(self.protocol)
        self._wait(lambda: self._owned() == [[], []], "two have joined, and nothing matches yet", WITHIN_REBALANCE)
        self._ask_until(f"create {self.topic} {PARTITIONS}", lambda words: words == ["ok"])
        self._wait_for_members("a topic that matches was created")
        self._demand_runs([[0, 1, 2], [3, 4, 5]])
        self._write_more()
        self._settle()
        self._demand_each_once("subscribed by a regular expression")
        self.writing = True
        # The assignor `uniform` would leave each what it has, as far as that is fair.
        self._join(1)
        self._demand_runs([[0, 1], [2, 3], [4, 5]])
        self._kill_under_load(self._coordinator())
        self._come_to_rest("the node was killed")
        self._demand_runs([[0, 1], [2, 3], [4, 5]])

    def _owned(self):
        """The partitions of each member, in order; None while that is not told."""
        found = self.witness.described()
        if found is None:
            return None
        given = [member.assignment.topic_partitions if member.assignment else [] for member in found.members]
        return sorted(sorted(place.partition for place in places) for places in given)

    def _demand_runs(self, runs):
        self._wait(lambda: self._owned() == runs, f"the partitions are cut into {runs}", WITHIN_REBALANCE)
