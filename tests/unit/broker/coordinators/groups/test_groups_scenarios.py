"""Whole rebalances, told as text: a command per line, and behind > what is answered because of it.

    A joins                a client with a new id from the coordinator; again: with the id it has
    A joins as i           the static member i; the process is new, so it has no id
    A syncs A=x B=y        as leader; without assignments as anybody
    A beats / leaves       heartbeat with the generation it knows, leave
    5s pass                time
    broker restarts        another broker takes over with the log

Answers: "A joined 2 leading A B", "A joined 2 under B", "A got x", "A beat", or the name of an error.
"""

import pytest

from ottla.errors import name_of_code

TWO_MEMBERS = """
    A joins
    B joins
    6s pass                 > A joined 1 leading A B; B joined 1 under A
    B syncs
    A syncs A=x B=y         > A got x; B got y
    A beats                 > A beat
    B beats                 > B beat
"""

A_THIRD_COMES = (
    TWO_MEMBERS
    + """
    C joins
    A beats                 > A REBALANCE_IN_PROGRESS
    A joins
    B joins                 > A joined 2 leading A B C; B joined 2 under A; C joined 2 under A
    C syncs
    A syncs A=x B=y C=z     > A got x; C got z
    B syncs                 > B got y
    B beats                 > B beat
"""
)

THE_LEADER_LEAVES = (
    TWO_MEMBERS
    + """
    A leaves                > A left
    B beats                 > B REBALANCE_IN_PROGRESS
    B joins                 > B joined 2 leading B
    B syncs B=xy            > B got xy
    A beats                 > A UNKNOWN_MEMBER_ID
"""
)

A_MEMBER_DIES = (
    TWO_MEMBERS
    + """
    9s pass
    B beats                 > B beat
    2s pass
    B beats                 > B REBALANCE_IN_PROGRESS
    B joins                 > B joined 2 leading B
    B syncs B=xy            > B got xy
"""
)

A_MEMBER_DOES_NOT_COME_BACK_IN_TIME = (
    TWO_MEMBERS
    + """
    C joins
    A joins
    9s pass
    B beats                 > B REBALANCE_IN_PROGRESS
    9s pass
    B beats                 > B REBALANCE_IN_PROGRESS
    9s pass
    B beats                 > B REBALANCE_IN_PROGRESS
    3s pass                 > A joined 2 leading A C; C joined 2 under A
    B beats                 > B UNKNOWN_MEMBER_ID
"""
)

THE_LEADER_DOES_NOT_ASSIGN = """
    A joins
    B joins
    6s pass                 > A joined 1 leading A B; B joined 1 under A
    B syncs
    9s pass
    A beats                 > A beat
    9s pass
    A beats                 > A beat
    9s pass
    A beats                 > A beat
    3s pass                 > B REBALANCE_IN_PROGRESS
    B joins                 > B joined 2 leading B
    A beats                 > A UNKNOWN_MEMBER_ID
"""

A_STATIC_MEMBER_RESTARTS = """
    A joins as i
    B joins as j
    6s pass                 > A joined 1 leading A B; B joined 1 under A
    B syncs
    A syncs A=x B=y         > A got x; B got y
    B restarts as j         > B joined 1 under A
    B syncs                 > B got y
    A beats                 > A beat
    B beats                 > B beat
"""

A_STATIC_LEADER_RESTARTS = """
    A joins as i
    B joins as j
    6s pass                 > A joined 1 leading A B; B joined 1 under A
    B syncs
    A syncs A=x B=y         > A got x; B got y
    A restarts as i         > A joined 1 leading A B and skips the assignment
    A syncs                 > A got x
    B beats                 > B beat
"""

A_STATIC_MEMBER_MAY_BE_AWAY_FOR_A_WHILE = """
    A joins as i
    B joins as j
    6s pass                 > A joined 1 leading A B; B joined 1 under A
    B syncs
    A syncs A=x B=y         > A got x; B got y
    6s pass
    A beats                 > A beat
    3s pass
    B restarts as j         > B joined 1 under A
    6s pass
    A beats                 > A beat
    B beats                 > B beat
"""

THE_BROKER_RESTARTS = (
    TWO_MEMBERS
    + """
    broker restarts
    A beats                 > A beat
    B syncs                 > B got y
    A joins
    broker restarts         > A NOT_COORDINATOR
    A joins
    B joins                 > A joined 2 leading A B; B joined 2 under A
    B syncs
    broker restarts         > B NOT_COORDINATOR
    B syncs                 > B ILLEGAL_GENERATION
    A joins
    B joins                 > A joined 2 leading A B; B joined 2 under A
    A syncs A=1 B=2         > A got 1
    B syncs                 > B got 2
"""
)

EVERYBODY_LEAVES = (
    TWO_MEMBERS
    + """
    A leaves                > A left
    B leaves                > B left
    B beats                 > B UNKNOWN_MEMBER_ID
    broker restarts
    B beats                 > B UNKNOWN_MEMBER_ID
    C joins
    3s pass                 > C joined 3 leading C
"""
)

EVERYBODY_DIES = (
    TWO_MEMBERS
    + """
    60s pass
    C joins
    3s pass                 > C joined 3 leading C
"""
)


class Play:
    """Clients by name, over a World."""

    def __init__(self, world):
        self.world = world
        self.ids = {}
        self.instances = {}
        self.generations = {}
        self.waiting = {}
        self.said = []

    def run(self, script):
        for line in filter(str.strip, script.splitlines()):
            command, _, expected = (part.strip() for part in line.partition(">"))
            self.said = []
            self.do(*command.split())
            self.collect()
            assert "; ".join(sorted(self.said)) == "; ".join(sorted(expected.split("; "))), line

    def do(self, who, verb, *rest):
        if verb == "pass":
            self.world.advance(int(who[:-1]) * 1_000)
        elif who == "broker":
            self.world.restart()
        else:
            getattr(self, verb)(who, *rest)

    def joins(self, who, *rest):
        if rest:
            self.instances[who] = rest[1]
        elif who not in self.ids:
            self.ids[who] = self.world.new_id(rebalance_ms=30_000)
        self.waiting[self._join(who)] = who

    def restarts(self, who, *rest):
        self.ids.pop(who)
        self.waiting[self._join(who)] = who

    def _join(self, who):
        instance = self.instances.get(who)
        return self.world.join(self.ids.get(who, ""), instance=instance, rebalance_ms=30_000)

    def syncs(self, who, *assignments):
        given = {self.ids[to]: what.encode() for to, what in (each.split("=") for each in assignments)}
        self.waiting[self.world.sync(self.ids[who], self.generations[who], given, instance=self.instances.get(who))] = (
            who
        )

    def beats(self, who):
        code = self.world.heartbeat(self.ids[who], self.generations[who], instance=self.instances.get(who))
        self.said.append(f"{who} {name_of_code(code) if code else 'beat'}")

    def leaves(self, who):
        assert self.world.leave(self.ids[who]).members[0].error_code == 0
        self.said.append(f"{who} left")

    def collect(self):
        done = {token: who for token, who in self.waiting.items() if not self.world.is_waiting(token)}
        for token, who in done.items():
            del self.waiting[token]
            answer = self.world.answer(token)
            if answer.error_code == 0 and hasattr(answer, "members"):
                self.ids[who], self.generations[who] = answer.member_id, answer.generation_id
        for token, who in done.items():
            self.said.append(f"{who} {self.heard(self.world.answer(token))}")

    def heard(self, answer):
        if answer.error_code:
            return name_of_code(answer.error_code)
        if hasattr(answer, "assignment"):
            return f"got {answer.assignment.decode()}"
        names = {member_id: name for name, member_id in self.ids.items()}
        if not answer.members:
            return f"joined {answer.generation_id} under {names[answer.leader]}"
        present = " ".join(sorted(names[each.member_id] for each in answer.members))
        skips = " and skips the assignment" if answer.skip_assignment else ""
        return f"joined {answer.generation_id} leading {present}{skips}"


SCRIPTS = {name.lower(): script for name, script in dict(globals()).items() if name.isupper()}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scenario(world, name):
    Play(world).run(SCRIPTS[name])
    world.check_replay()


@pytest.mark.parametrize("name", SCRIPTS)
def test_scenario_when_the_log_commits_late(make_world, name):
    """What a client hears does not depend on how long a commit takes; here every commit takes until the next step."""
    world = make_world()
    world.commits_at_once = False
    play = Play(world)
    call = world.call

    def call_then_commit(*args, **how):
        token = call(*args, **how)
        world.commit_log()
        return token

    world.call = call_then_commit
    play.run(SCRIPTS[name])
