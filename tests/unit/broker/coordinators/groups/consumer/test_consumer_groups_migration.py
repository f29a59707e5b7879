"""A group changes from the classic protocol to the new one and back while its members work."""

from __future__ import annotations

import pytest

from ottla.broker.coordinators.groups.consumer.embedded import read_assignment
from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    InconsistentGroupProtocol,
    NotEnoughReplicas,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.protocol.stored import encode_value
from ottla.protocol.stored.subscription import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    TopicPartition,
)


def subscription(topics=("t",), owned=(), version=3):
    partitions = [TopicPartition(topic="t", partitions=sorted(owned))] if owned else []
    return encode_value(ConsumerProtocolSubscription(topics=list(topics), owned_partitions=partitions), version)


def assignment(*partitions):
    topics = [ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=list(partitions))]
    return encode_value(ConsumerProtocolAssignment(assigned_partitions=topics), 3)


class ClassicConsumer:
    """A classic consumer with the cooperative protocol, as far as a consumer group sees it."""

    def __init__(self, world, member_id, instance=None):
        self.world = world
        self.member_id = member_id
        self.instance = instance
        self.generation = -1
        self.owned = set()

    def join(self, version=9):
        protocols = {"cooperative-sticky": subscription(owned=self.owned)}
        token = self.world.join(self.member_id, instance=self.instance, protocols=protocols, version=version)
        answer = self.world.answer(token)
        if answer.error_code in (0, 79):
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(self):
        token = self.world.sync(self.member_id, self.generation, instance=self.instance, protocol="cooperative-sticky")
        answer = self.world.answer(token)
        if answer.error_code == 0:
            told = read_assignment(answer.assignment, self.world.cluster)
            self.owned = set(told.get(self.world.cluster.topic_id("t"), ()))
        return answer.error_code

    def beat(self):
        """Heartbeat; join and sync when called."""
        code = self.world.heartbeat(self.member_id, self.generation, instance=self.instance)
        if code == RebalanceInProgress.code:
            assert self.join().error_code == 0
            self.sync()
        return code


def classic_group(world, *owned):
    """A stable classic group; the first member has these partitions of t, the second those, and so on."""
    protocols = {"cooperative-sticky": subscription()}
    ids = [world.new_id(protocols=protocols) for _ in owned]
    tokens = [world.join(each, protocols=protocols) for each in ids]
    world.until(*tokens)
    generation = world.answer(tokens[0]).generation_id
    leader = world.answer(tokens[0]).leader
    given = {each: assignment(*partitions) for each, partitions in zip(ids, owned, strict=True)}
    for each in sorted(ids, key=lambda each: each == leader):
        world.sync(each, generation, given, protocol="cooperative-sticky")
    found = []
    for each, partitions in zip(ids, owned, strict=True):
        client = ClassicConsumer(world, each)
        client.generation, client.owned = generation, set(partitions)
        found.append(client)
    assert world.group().state_name == "Stable"
    return found


def settle(world, classics, clients):
    for _ in range(12):
        for each in (*classics, *clients):
            each.beat()
        world.now_ms += 1
    owned = [("t", index) for each in classics for index in each.owned]
    owned += [each for client in clients for each in client.owned]
    assert sorted(owned) == [("t", index) for index in range(4)]
    world.check_replay()


def test_a_member_of_the_new_protocol_turns_a_classic_group(consumers):
    one, two = classic_group(consumers, (0, 1), (2, 3))
    new = consumers.client("new")
    answer = new.beat()
    assert answer.error_code == 0
    group = consumers.consumer_group()
    assert set(group.members) == {one.member_id, two.member_id, "new"}
    assert (group.epoch, new.epoch) == (one.generation + 1, one.generation + 1)
    assert group.owners.keys() == {(consumers.cluster.topic_id("t"), index) for index in range(4)}
    assert one.beat() == RebalanceInProgress.code
    settle(consumers, [one, two], [new])
    assert consumers.consumer_described().group_state == "Stable"
    assert {each.member_type for each in consumers.consumer_described().members} == {0, 1}
    assert consumers.commit_codes({("t", 0): 1}, member_id=one.member_id, generation=one.generation) == [0]
    assert consumers.commit_codes({("t", 0): 1}, member_id=one.member_id, generation=99) == [IllegalGeneration.code]


def test_who_waits_in_a_classic_group_is_called_again(consumers):
    (one,) = classic_group(consumers, (0, 1, 2, 3))
    two = consumers.new_id(protocols={"cooperative-sticky": subscription()})
    waiting = consumers.join(two, protocols={"cooperative-sticky": subscription()})
    assert consumers.is_waiting(waiting)
    new = consumers.client("new")
    new.beat()
    assert consumers.answer(waiting).error_code == RebalanceInProgress.code
    second = ClassicConsumer(consumers, two)
    assert second.join().error_code == 0
    settle(consumers, [one, second], [new])


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_without_leave_the_group_stays_classic(make_consumers, policy):
    consumers = make_consumers(group_consumer_migration_policy=policy)
    classic_group(consumers, (0, 1, 2, 3))
    assert consumers.beat("new").error_code == GroupIdNotFound.code
    assert consumers.group().state_name == "Stable"


def test_what_cannot_be_read_cannot_be_taken_over(consumers):
    consumers.settle(consumers.new_id())
    assert consumers.beat("new").error_code == GroupIdNotFound.code
    consumers.settle(consumers.new_id(group="x", protocol_type="connect"), group="x", protocol_type="connect")
    assert consumers.beat("new", group="x").error_code == GroupIdNotFound.code


def test_a_turn_that_cannot_be_written_leaves_the_classic_group(consumers):
    (one,) = classic_group(consumers, (0, 1, 2, 3))
    consumers.append_error = NotEnoughReplicas()
    assert consumers.beat("new").error_code == 15
    consumers.append_error = None
    assert consumers.group().state_name == "Stable"
    assert one.beat() == 0
    consumers.check_replay()


def test_the_last_member_of_the_new_protocol_takes_it_along(consumers):
    one, two = classic_group(consumers, (0, 1), (2, 3))
    new = consumers.client("new")
    new.beat()
    settle(consumers, [one, two], [new])
    epoch = consumers.consumer_group().epoch
    assert consumers.leave_consumer("new").error_code == 0
    group = consumers.group()
    assert set(group.members) == {one.member_id, two.member_id}
    assert (group.generation, group.protocol_name) == (epoch, "cooperative-sticky")
    consumers.check_replay()
    consumers.advance(0)
    assert group.state_name == "PreparingRebalance"
    assert consumers.heartbeat(one.member_id, one.generation) == RebalanceInProgress.code
    tokens = [
        consumers.join(each.member_id, protocols={"cooperative-sticky": subscription(owned=each.owned)})
        for each in (one, two)
    ]
    assert [consumers.answer(token).generation_id for token in tokens] == [epoch + 1] * 2
    consumers.check_replay()


def test_silence_of_the_last_member_of_the_new_protocol_does_the_same(consumers):
    (one,) = classic_group(consumers, (0, 1, 2, 3))
    new = consumers.client("new")
    new.beat()
    settle(consumers, [one], [new])
    for _ in range(10):
        consumers.advance(5_000)
        if isinstance(consumers.shard.groups["g"], ConsumerGroup):
            one.beat()
    assert set(consumers.group().members) == {one.member_id}


def test_a_way_back_that_cannot_be_written_is_not_gone(consumers):
    (one,) = classic_group(consumers, (0, 1, 2, 3))
    new = consumers.client("new")
    new.beat()
    settle(consumers, [one], [new])
    consumers.append_error = NotEnoughReplicas()
    assert consumers.leave_consumer("new").error_code == 15
    consumers.append_error = None
    consumers.advance(0)
    assert set(consumers.consumer_group().members) == {one.member_id, "new"}
    settle(consumers, [one], [new])


def test_without_leave_to_go_back_the_group_stays(make_consumers):
    consumers = make_consumers(group_consumer_migration_policy="upgrade")
    (one,) = classic_group(consumers, (0, 1, 2, 3))
    new = consumers.client("new")
    new.beat()
    settle(consumers, [one], [new])
    consumers.leave_consumer("new")
    settle(consumers, [one], [])
    assert one.owned == {0, 1, 2, 3}


def test_a_classic_consumer_joins_a_consumer_group(consumers):
    new = consumers.client("new")
    new.beat()
    one = ClassicConsumer(consumers, "")
    assert one.join().error_code == 79
    assert list(consumers.consumer_group().members) == ["new"]
    answer = one.join()
    assert (answer.error_code, answer.protocol_type, answer.protocol_name) == (0, "consumer", "cooperative-sticky")
    assert (answer.leader, answer.members, answer.generation_id) == ("", [], 2)
    assert one.sync() == 0
    settle(consumers, [one], [new])
    assert len(one.owned) == 2
    assert consumers.leave(one.member_id).members[0].error_code == 0
    assert list(consumers.consumer_group().members) == ["new"]


def test_a_static_consumer_changes_its_protocol_and_back(consumers):
    a = consumers.client("a", instance="i")
    b = consumers.client("b")
    consumers.settle_beating(a, b)
    one = ClassicConsumer(consumers, "", instance="i")
    one.owned = {index for _, index in a.owned}
    assert one.join().error_code == 0
    assert one.sync() == 0
    settle(consumers, [one], [b])
    back = consumers.client("a2", instance="i")
    back.beat()
    settle(consumers, [], [back, b])
    assert one.beat() == 82


def test_the_last_static_member_may_take_the_group_back(consumers):
    (one,) = classic_group(consumers, (0, 1, 2, 3))
    new = consumers.client("new", instance="i")
    new.beat()
    settle(consumers, [one], [new])
    two = ClassicConsumer(consumers, "", instance="i")
    assert two.join().error_code == 0
    assert set(consumers.group().members) == {one.member_id, two.member_id}
    consumers.check_replay()


def test_classic_requests_are_checked(consumers):
    consumers.beat("new")
    one = ClassicConsumer(consumers, "")
    one.join()
    one.join()
    assert consumers.heartbeat("nobody", 1) == UnknownMemberId.code
    assert consumers.heartbeat("new", 1) == UnknownMemberId.code
    assert consumers.heartbeat(one.member_id, 99) == IllegalGeneration.code
    bad = consumers.sync(one.member_id, one.generation, protocol="range")
    assert consumers.answer(bad).error_code == InconsistentGroupProtocol.code
    assert consumers.leave("nobody").members[0].error_code == UnknownMemberId.code
    assert consumers.answer(consumers.join(protocols={"range": subscription()})).error_code == 23
    assert consumers.answer(consumers.join("x", protocols={"cooperative-sticky": b""})).error_code == -1


def test_an_administrator_removes_members_of_either_protocol(consumers):
    for name, instance in (("a", "one"), ("b", "two"), ("c", None)):
        consumers.client(name, instance=instance).beat()
    answer = consumers.leave(("", "one"), ("x", "two"), ("", "unknown"), "c")
    codes = [each.error_code for each in answer.members]
    assert codes == [0, FencedInstanceId.code, UnknownMemberId.code, 0]
    assert list(consumers.consumer_group().members) == ["b"]
    consumers.check_replay()


def test_without_migration_no_classic_consumer_comes_in(make_consumers):
    consumers = make_consumers(group_consumer_migration_policy="disabled")
    consumers.beat("new")
    assert ClassicConsumer(consumers, "").join().error_code == InconsistentGroupProtocol.code


def test_a_classic_member_that_does_not_follow_is_put_out(consumers):
    new = consumers.client("new")
    new.beat()
    one = ClassicConsumer(consumers, "")
    one.join()
    one.join()  # and no sync
    for _ in range(13):
        consumers.heartbeat(one.member_id, one.generation)
        new.beat()
        consumers.advance(5_000)
    assert list(consumers.consumer_group().members) == ["new"]


def test_a_classic_member_that_is_called_must_come(consumers):
    new = consumers.client("new")
    new.beat()
    one = ClassicConsumer(consumers, "")
    one.join()
    one.join()
    one.sync()
    settle(consumers, [one], [new])
    other = consumers.client("other")
    for _ in range(13):
        consumers.heartbeat(one.member_id, one.generation)
        new.beat()
        other.beat()
        consumers.advance(5_000)
    assert set(consumers.consumer_group().members) == {"new", "other"}


def test_timers_of_the_classic_protocol_do_not_follow_a_member_that_left_it(consumers):
    a = consumers.client("a", instance="i")
    b = consumers.client("b")
    consumers.settle_beating(a, b)
    one = ClassicConsumer(consumers, "", instance="i")
    one.join()  # the time to sync runs
    back = consumers.client(one.member_id, instance="i")
    for _ in range(14):
        back.beat()
        b.beat()
        consumers.advance(5_000)
    assert set(consumers.consumer_group().members) == {one.member_id, "b"}
