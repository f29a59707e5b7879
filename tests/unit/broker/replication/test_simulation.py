"""Any order of produces, elections, crashes and lost letters: committed is for ever, acknowledged is not lost.

After every step (conftest.World.check):

    what any replica ever called committed is the same on every replica that calls it committed
    every member of the in-sync set that lives has every acknowledged record, at its offset

and after everything has healed all logs are the same, byte for byte. A run comes from one seed, which a failure names.
"""

from random import Random

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from ottla.cluster.model import NO_LEADER

STEPS = 120
WEIGHTS = {
    "produce": 8,
    "arrive": 14,
    "lose": 1,
    "obey": 5,
    "crash": 1,
    "start": 2,
    "elect": 1,
    "expire": 1,
    "later": 2,
    "deliver": 1,
}


class Run:
    """Steps by chance. A client mostly asks who is leader, but may be late to hear of it."""

    def __init__(self, world, seed):
        self.world = world
        self.random = Random(seed)
        self.number = 0

    def step(self):
        self.number += 1
        (what,) = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        note(f"{self.number}: {what}")
        getattr(self, what)()
        self.world.check()

    def node(self, is_alive):
        found = [each for each in self.world.nodes.values() if each.is_alive is is_alive]
        return self.random.choice(found) if found else None

    def produce(self):
        believed = self.world.truth.leader if self.random.random() < 0.8 else self.random.choice([0, 1, 2])
        node = self.world.nodes.get(believed)
        if node is not None and node.partition is not None:
            self.world.produce(believed, f"v{self.number}", acks=self.random.choice([-1, -1, 1]))

    def arrive(self):
        if letters := self.world.open_letters:
            self.world.arrive(self.random.choice(letters))

    def lose(self):
        if letters := self.world.open_letters:
            letter = self.random.choice(letters)
            self.random.choice([self.world.lose, lambda each: self.world.arrive(each, answer_is_lost=True)])(letter)

    def obey(self):
        self.world.obey(self.random.choice(list(self.world.nodes)))

    def crash(self):
        if node := self.node(is_alive=True):
            others = [each for each in self.world.truth.isr if each != node.id and each in self.world.live]
            # Alone, a power cut would take what nobody else has.
            self.world.crash(node.id, power_fails=bool(others) and self.random.random() < 0.5)

    def start(self):
        if node := self.node(is_alive=False):
            self.world.start(node.id)

    def elect(self):
        if self.world.live:
            self.world.elect(self.random.choice(self.world.live))

    def expire(self):
        """A broker lives, but lost its session."""
        truth, node = self.world.truth, self.node(is_alive=True)
        if node is not None and len(self.world.live) > 1:
            self.world.elect(None if truth.leader == node.id else truth.leader, without=(node.id,))

    def later(self):
        self.world.later(self.random.choice([60, 600, 2_000]))

    def deliver(self):
        self.world.deliver(until_quiet=False)

    def heal(self):
        for broker_id, node in self.world.nodes.items():
            if not node.is_alive:
                self.world.start(broker_id)
        if self.world.truth.leader == NO_LEADER:
            self.world.elect()
        for _ in range(3):
            self.world.settle()
            self.world.check()


@given(
    seed=st.integers(0, 2**32),
    min_insync_replicas=st.sampled_from([1, 2, 2, 3]),
    # Before 2.7 a fetch did not tell where logs went apart, and followers asked for it first.
    protocol_version=st.sampled_from(["3.9-IV0", "3.9-IV0", "2.6-IV0"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_nothing_committed_changes_and_nothing_acknowledged_is_lost(
    make_world, seed, min_insync_replicas, protocol_version
):
    world = make_world(
        min_insync_replicas=min_insync_replicas,
        replica_lag_time_max_ms=3_000,
        inter_broker_protocol_version=protocol_version,
    )
    run = Run(world, seed)
    for _ in range(STEPS):
        run.step()
    run.heal()
    assert set(world.truth.isr) == set(world.nodes)
    world.produce(world.truth.leader, "last")
    world.settle()
    world.check()
    assert "last" in world.acknowledged.values()
    assert world.bytes_of(0) == world.bytes_of(1) == world.bytes_of(2)
