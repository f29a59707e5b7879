"""Stories of consumer groups (KIP-848), told to a broker by bare heartbeats: what does it answer?

    with Wire("127.0.0.1:9092") as wire:
        for row in all_rows(wire): print(row)          # (story, step, answer)

1. A story has a group, topics and members of its own; a step is one heartbeat, its row says the error, the epoch, when
   to come again, and the assignment (`-` where there is none in the answer). Rows have no clock and no id in them, and
   epochs count from the group's first one in the story, so the rows of two brokers can be compared.
2. What a broker hears in the background (a topic is there, or gone) is waited for by plain heartbeats: the row is that
   of the first one that has news.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.conformance.transaction_probes import Wire, prepare_coordinators

from ottla.errors import name_of_code
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.schema import ZERO_UUID

VERSION = 1
WAIT_S = 60
LEAVE = -1
REBALANCE_TIMEOUT_MS = 600_000
Owned = dict[str, list[int]]
Step = tuple[str, str]


class Teller:
    def __init__(self, wire: Wire, story: str) -> None:
        self.wire = wire
        self.story = story
        self.topics: dict[bytes, str] = {}
        self.first_epoch = 0

    def full_name(self, topic: str) -> str:
        return f"{self.story}-{topic}"

    def create(self, topic: str) -> None:
        """Make a topic, and wait until the group's coordinator knows it: a scout gets its partitions and leaves."""
        self.create_only(topic)
        scout = Member(self, "scout")
        give_up_s = time.monotonic() + WAIT_S
        while topic not in scout.assigned:
            assert time.monotonic() < give_up_s, topic
            time.sleep(0.05)
            scout.beat({}, [topic], epoch=0, rebalance_timeout_ms=REBALANCE_TIMEOUT_MS)
        scout.leave()
        self.first_epoch = 0

    def create_only(self, topic: str) -> None:
        name = self.full_name(topic)
        made = CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
        (result,) = self.wire.ask(CreateTopicsRequest(topics=[made], timeout_ms=WAIT_S * 1000), 7).topics
        assert result.error_code == 0, result
        self.topics[result.topic_id] = topic

    def delete(self, topic: str) -> None:
        state = DeleteTopicState(name=self.full_name(topic), topic_id=ZERO_UUID)
        (result,) = self.wire.ask(DeleteTopicsRequest(topics=[state], timeout_ms=WAIT_S * 1000), 6).responses
        assert result.error_code == 0, result


class Member:
    """What a client remembers: its epoch, and what it was assigned last."""

    def __init__(self, teller: Teller, name: str = "m") -> None:
        self.teller = teller
        self.id = f"{teller.story}-{name}"
        self.epoch = 0
        self.assigned: Owned = {}

    def request(self, owned: Owned | None = None, topics: list[str] | None = None, **more: Any) -> Any:
        ids = {name: topic_id for topic_id, name in self.teller.topics.items()}
        return ConsumerGroupHeartbeatRequest(
            group_id=f"group-{self.teller.story}",
            member_id=self.id,
            member_epoch=more.pop("epoch", self.epoch),
            subscribed_topic_names=None if topics is None else [self.teller.full_name(each) for each in topics],
            topic_partitions=None
            if owned is None
            else [TopicPartitions(topic_id=ids[name], partitions=each) for name, each in owned.items()],
            **more,
        )

    def beat(self, owned: Owned | None = None, topics: list[str] | None = None, **more: Any) -> str:
        return self.hear(self.teller.wire.ask(self.request(owned, topics, **more), VERSION))

    def join(self, *topics: str) -> str:
        return self.beat({}, list(topics), epoch=0, rebalance_timeout_ms=REBALANCE_TIMEOUT_MS)

    def until_news(self) -> str:
        """Plain heartbeats until one has another epoch, an assignment or an error."""
        give_up_s = time.monotonic() + WAIT_S
        while True:
            before = self.epoch
            answer = self.teller.wire.ask(self.request(), VERSION)
            heard = self.hear(answer)
            if answer.error_code or answer.assignment is not None or answer.member_epoch != before:
                return heard
            assert time.monotonic() < give_up_s, heard
            time.sleep(0.05)

    def report(self) -> str:
        """It has what it was assigned."""
        return self.beat(owned=self.assigned)

    def leave(self) -> str:
        return self.beat(epoch=LEAVE)

    def hear(self, answer: Any) -> str:
        if answer.error_code:
            return name_of_code(answer.error_code)
        epoch = "left"
        if answer.member_epoch >= 0:
            self.epoch = answer.member_epoch
            self.teller.first_epoch = self.teller.first_epoch or self.epoch
            epoch = f"epoch {1 + self.epoch - self.teller.first_epoch}"
        what = "-"
        if answer.assignment is not None:
            names = self.teller.topics
            found = {names[each.topic_id]: sorted(each.partitions) for each in answer.assignment.topic_partitions}
            self.assigned = dict(sorted(found.items()))
            what = ",".join(f"{topic}{''.join(map(str, each))}" for topic, each in self.assigned.items()) or "none"
        return f"{epoch} in {answer.heartbeat_interval_ms} {what}"


def subscriptions(teller: Teller) -> Iterator[Step]:
    teller.create("a")
    teller.create("b")
    member = Member(teller)
    yield "join", member.join("a")
    yield "report", member.report()
    yield "nothing", member.beat()
    yield "another topic too", member.beat(topics=["a", "b"])
    yield "report both", member.report()
    yield "without the first", member.beat(topics=["b"])
    yield "nothing while it is revoked", member.beat()
    yield "released", member.report()
    yield "the other one only", member.beat(topics=["a"])
    yield "released again", member.report()
    yield "report again", member.report()
    yield "no topic", member.beat(topics=[])
    yield "released all", member.beat(owned={})
    yield "leave", member.leave()
    yield "nothing after it left", member.beat()
    yield "leave again", member.leave()


def unanswered_revocations(teller: Teller) -> Iterator[Step]:
    teller.create("a")
    teller.create("b")
    member = Member(teller)
    yield "join", member.join("a")
    yield "report", member.report()
    for number, topics in enumerate([["b"], ["a"], ["a", "b"], [], ["b"], ["a", "b"], ["a"]]):
        yield f"{number} subscribe to {'+'.join(topics) or 'nothing'}", member.beat(topics=topics)
        yield f"{number} nothing", member.beat()
    yield "leave", member.leave()
    yield "come back", member.join("a", "b")
    yield "report both", member.report()
    yield "leave for good", member.leave()


def two_members(teller: Teller) -> Iterator[Step]:
    teller.create("a")
    first, second = Member(teller, "first"), Member(teller, "second")
    yield "first joins", first.join("a")
    yield "first reports", first.report()
    yield "second joins", second.join("a")
    yield "second, nothing", second.beat()
    yield "first must release", first.beat()
    yield "second, still nothing", second.beat()
    yield "first released", first.report()
    yield "second gets it", second.beat()
    yield "second reports", second.report()
    yield "second wants nothing", second.beat(topics=[])
    yield "first waits", first.beat()
    yield "first waits still", first.beat()
    yield "second leaves without an answer to the revocation", second.leave()
    yield "first has it", first.beat()
    yield "first reports it", first.report()
    yield "first leaves", first.leave()


def deleted_topic(teller: Teller) -> Iterator[Step]:
    teller.create("a")
    teller.create("b")
    member = Member(teller)
    member.join("a")
    member.report()
    yield "both", member.beat(topics=["a", "b"])
    yield "report", member.report()
    teller.delete("b")
    yield "it is gone", member.until_news()
    yield "report what is left", member.report()
    yield "nothing", member.beat()
    yield "leave", member.leave()


def deleted_at_once(teller: Teller) -> Iterator[Step]:
    """The client never knew the name of the topic, so it says nothing about it."""
    teller.create("a")
    member = Member(teller)
    yield "join", member.join("a")
    yield "report", member.report()
    yield "a name that is not there yet", member.beat(topics=["a", "b"])
    teller.create_only("b")
    yield "it came", member.until_news()
    teller.delete("b")
    yield "it is gone", member.until_news()
    yield "nothing", member.beat()
    yield "nothing again", member.beat()
    yield "report what is left", member.report()
    yield "nothing more", member.beat()
    yield "leave", member.leave()


def wrong_epochs(teller: Teller) -> Iterator[Step]:
    teller.create("a")
    teller.create("b")
    member = Member(teller)
    yield "join", member.join("a")
    yield "nobody", Member(teller, "nobody").beat(epoch=1)
    yield "too large", member.beat(epoch=member.epoch + 5)
    before = member.epoch
    member.beat(topics=["a", "b"])
    yield "one behind, silent", member.beat(epoch=before)
    yield "one behind, with what it had", member.beat(owned={"a": [0, 1]}, epoch=before)
    full = {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS}
    yield "all fields", member.beat(owned=member.assigned, topics=["a", "b"], **full)
    yield "join again", member.beat({}, ["a", "b"], epoch=0, **full)
    yield "leave", member.leave()


def at_once(teller: Teller) -> Iterator[Step]:
    """A client that is destroyed sends its leave behind a heartbeat that is not answered yet."""
    teller.create("a")
    teller.create("b")
    member = Member(teller)
    yield "join", member.join("a")
    yield "report", member.report()
    for request in (member.request(topics=["b"]), member.request(), member.request(epoch=LEAVE), member.request()):
        teller.wire.send(request, VERSION)
    for step in ("subscribe", "nothing", "leave", "nothing after it left"):
        yield step, member.hear(teller.wire.receive())


STORIES: tuple[Callable[[Teller], Iterator[Step]], ...] = (
    subscriptions,
    unanswered_revocations,
    two_members,
    deleted_topic,
    deleted_at_once,
    wrong_epochs,
    at_once,
)


def all_rows(wire: Wire) -> Iterator[tuple[str, str, str]]:
    prepare_coordinators(wire)
    for story in STORIES:
        for step, answer in story(Teller(wire, story.__name__)):
            yield story.__name__, step, answer
