"""What all random walks of groups share: a world that may restart and whose disk may fail, and a log that is enough.

class Consumers(HonestMembers): ...             rules and invariants of its own beside those here
run(Consumers, make_consumers, examples=40, steps=40)
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ottla.broker.coordinators.groups.timers import SessionTimer
from ottla.errors import NotEnoughReplicas


class RandomGroups(RuleBasedStateMachine):
    """A world of groups in which the coordinator may move at any moment."""

    make_world = None  # run() puts it here
    world_settings = {}

    def __init__(self):
        super().__init__()
        self.world = self.make_world(**self.world_settings)

    @rule()
    def the_coordinator_moves(self):
        self.world.restart()

    @invariant()
    def the_log_gives_what_the_shard_has(self):
        self.world.check_replay()


class OnAFailingDisk(RandomGroups):
    """Appends may fail, from one moment to another."""

    @rule(error=st.sampled_from([None, None, NotEnoughReplicas()]))
    def the_disk_changes_its_mind(self, error):
        self.world.append_error = error


class HonestMembers(OnAFailingDisk):
    """Members of the newer protocols: `clients` by name, each of which stops when it was silent for too long.

    `revocation_timer(member)` is the timer that ends the wait for what a member must give up; None when it waits for
    nothing.
    """

    def advance(self, ms):
        self.world.advance(ms)
        for client in self.clients.values():
            client.stop_if_silent()

    @invariant()
    def every_wait_ends(self):
        for group in self.world.shard.groups.values():
            for member in group.members.values():
                assert SessionTimer("g", member.member_id) in self.world.timers
                timer = self.revocation_timer(member)
                if timer is not None and self.world.append_error is None:
                    assert timer in self.world.timers


def run(machine, make_world, *, examples, steps):
    limits = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )
    made = type(machine.__name__, (machine,), {"make_world": staticmethod(make_world)})
    run_state_machine_as_test(made, settings=limits)
