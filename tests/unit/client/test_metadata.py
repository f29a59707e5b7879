"""What a client knows of the cluster and when it asks: answers in, questions out, no socket and no clock."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.metadata import Metadata, bootstrap_nodes
from ottla.errors import (
    LeaderNotAvailable,
    NotConnected,
    RebootstrapRequired,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.net.retries import Backoff
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.values import Address, Node, TopicPartition

BOOT = bootstrap_nodes([Address("boot", 9092), Address("spare", 9092)])
ONE, TWO = Node(1, "one", 9092), Node(2, "two", 9092, "rack-b")
ID_A, ID_B = bytes([1] * 16), bytes([2] * 16)
ORDERS_0 = TopicPartition("orders", 0)


class Middle:
    def random(self) -> float:
        return 0.5


def metadata(**options: object) -> Metadata:
    return Metadata(BOOT, backoff=Backoff(100, 1000, Middle()), **options)  # type: ignore[arg-type]


def partition(index: int, leader: int, epoch: int = 0, error: type | None = None) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=0 if error is None else error.code,  # type: ignore[attr-defined]
        partition_index=index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1],
        offline_replicas=[2],
    )


def topic(
    name: str, *partitions: MetadataResponsePartition, topic_id: bytes = ID_A, error: type | None = None
) -> MetadataResponseTopic:
    code = 0 if error is None else error.code  # type: ignore[attr-defined]
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=list(partitions))


def answer(*topics: MetadataResponseTopic, nodes: Sequence[Node] = (ONE, TWO)) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=n.id, host=n.host, port=n.port, rack=n.rack) for n in nodes]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=2, topics=list(topics))


def asked_names(known: Metadata, now_ms: float) -> list[str] | None:
    topics = known.request(now_ms).topics
    return None if topics is None else [str(each.name) for each in topics]


def told(known: Metadata, response: MetadataResponse, now_ms: float = 0) -> Metadata:
    known.request(now_ms)
    known.update(response, now_ms)
    return known


def knows_orders(**options: object) -> Metadata:
    known = metadata(**options)
    known.want("orders", now_ms=0)
    return told(known, answer(topic("orders", partition(0, 1, epoch=5))))


# --- what is known ---------------------------------------------------------------------------------------------------


def test_before_the_first_answer_there_are_the_bootstrap_addresses_with_negative_ids() -> None:
    known = metadata()
    assert [node.id for node in known.nodes()] == [-1, -2]
    assert known.node(-2) == BOOT[1]
    assert known.partitions_of("orders") is None


def test_an_answer_tells_nodes_leaders_and_ids() -> None:
    known = knows_orders()
    assert known.nodes() == (ONE, TWO)
    assert known.controller == TWO
    assert known.cluster_id == "c"
    assert known.leader_of(ORDERS_0) == ONE
    found = known.partition(ORDERS_0)
    assert found is not None
    assert (found.leader_epoch, found.replicas, found.in_sync, found.offline) == (5, (1, 2), (1,), (2,))
    assert known.topic_id("orders") == ID_A
    assert known.topic_name(ID_A) == "orders"
    assert known.topics() == {"orders"}


def test_a_partition_without_a_leader_has_none_and_a_new_question_is_due() -> None:
    known = metadata()
    known.want("orders", now_ms=0)
    told(known, answer(topic("orders", partition(0, -1, error=LeaderNotAvailable), partition(1, 1))))
    assert known.leader_of(ORDERS_0) is None
    assert known.leader_of(TopicPartition("orders", 1)) == ONE
    assert known.due_ms(0) == 100


def test_partitions_stand_at_their_index_whatever_order_they_came_in() -> None:
    known = metadata()
    known.want("orders", now_ms=0)
    told(known, answer(topic("orders", partition(2, 2), partition(0, 1), partition(1, 1))))
    found = known.partitions_of("orders")
    assert found is not None
    assert [each.partition for each in found] == [0, 1, 2]


def test_an_absurd_partition_number_costs_no_memory() -> None:
    known = metadata()
    known.want("orders", now_ms=0)
    told(known, answer(topic("orders", partition(2**31 - 1, 2))))
    assert known.partitions_of("orders") is None


def test_a_topic_error_is_kept_for_whoever_waits() -> None:
    known = metadata()
    known.want("orders", "secret", now_ms=0)
    told(known, answer(topic("orders", error=UnknownTopicOrPartition), topic("secret", error=TopicAuthorizationFailed)))
    assert isinstance(known.error_of("orders"), UnknownTopicOrPartition)
    assert isinstance(known.error_of("secret"), TopicAuthorizationFailed)
    assert known.topics() == frozenset()


# --- leaders do not go back ------------------------------------------------------------------------------------------


def test_an_older_leader_epoch_is_ignored() -> None:
    known = told(knows_orders(), answer(topic("orders", partition(0, 2, epoch=4))))
    assert known.leader_of(ORDERS_0) == ONE


def test_the_same_epoch_is_taken() -> None:
    known = told(knows_orders(), answer(topic("orders", partition(0, 2, epoch=5))))
    assert known.leader_of(ORDERS_0) == TWO


def test_epochs_of_old_brokers_are_not_trusted() -> None:
    known = knows_orders()
    known.request(0)
    known.update(answer(topic("orders", partition(0, 2, epoch=4))), 0, reliable_epochs=False)
    assert known.leader_of(ORDERS_0) == TWO


def test_a_topic_made_anew_begins_with_new_epochs() -> None:
    known = told(knows_orders(), answer(topic("orders", partition(0, 2, epoch=0), topic_id=ID_B)))
    assert known.leader_of(ORDERS_0) == TWO
    assert known.topic_name(ID_A) is None
    assert known.topic_name(ID_B) == "orders"


def test_a_hint_about_the_leader_is_taken_when_it_is_newer() -> None:
    known = knows_orders()
    version = known.version
    assert known.leader_changed(ORDERS_0, 7, 6, [Node(7, "seven", 1)])
    assert known.leader_of(ORDERS_0) == Node(7, "seven", 1)
    assert known.version > version
    assert not known.leader_changed(ORDERS_0, 1, 6)
    assert not known.leader_changed(ORDERS_0, 99, 9)
    assert not known.leader_changed(TopicPartition("other", 0), 1, 9)
    assert known.leader_of(ORDERS_0) == Node(7, "seven", 1)


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 20)), min_size=1))
def test_whatever_the_order_of_answers_the_newest_epoch_wins(answers: list[tuple[int, int]]) -> None:
    known = metadata()
    known.want("orders", now_ms=0)
    for leader, epoch in answers:
        told(known, answer(topic("orders", partition(0, leader, epoch))))
    found = known.partition(ORDERS_0)
    assert found is not None
    assert found.leader_epoch == max(epoch for _, epoch in answers)


# --- what is asked ---------------------------------------------------------------------------------------------------


def test_the_first_question_is_due_at_once_and_names_no_topic() -> None:
    known = metadata()
    assert known.due_ms(7) <= 7
    assert asked_names(known, 7) == []


def test_a_new_topic_is_asked_for_alone_and_the_others_stay_known() -> None:
    known = knows_orders()
    assert known.want("bills", now_ms=1)
    assert not known.want("bills", now_ms=2)
    assert known.due_ms(2) <= 2
    assert asked_names(known, 2) == ["bills"]
    known.update(answer(topic("bills", partition(0, 2), topic_id=ID_B)), 2)
    assert known.topics() == {"orders", "bills"}


def test_a_requested_update_names_every_wanted_topic() -> None:
    known = knows_orders()
    known.want("bills", now_ms=1)
    known.request_update()
    assert asked_names(known, 2) == ["bills", "orders"]


def test_an_answer_grows_old() -> None:
    known = knows_orders(max_age_ms=5000)
    assert known.due_ms(10) == 5000


def test_a_topic_that_a_producer_does_not_use_is_forgotten() -> None:
    known = knows_orders(max_idle_ms=1000)
    known.want("bills", now_ms=900)
    told(known, answer(topic("bills", partition(0, 1), topic_id=ID_B)), 900)
    known.request_update()
    assert asked_names(known, 1500) == ["bills"]
    known.update(answer(topic("bills", partition(0, 1), topic_id=ID_B)), 1500)
    assert known.topics() == {"bills"}


def test_a_consumer_wants_exactly_its_list() -> None:
    known = knows_orders()
    known.want_only(["bills"])
    assert asked_names(known, 0) == ["bills"]
    known.update(answer(topic("bills", partition(0, 1))), 0)
    assert known.topics() == {"bills"}


def test_all_topics_are_asked_for_with_null() -> None:
    known = metadata()
    told(known, answer())
    known.want_only(None)
    assert known.due_ms(1) <= 1
    assert asked_names(known, 1) is None
    known.update(answer(topic("orders", partition(0, 1)), topic("bills", partition(0, 1), topic_id=ID_B)), 1)
    assert known.topics() == {"orders", "bills"}


def test_creation_of_topics_can_be_refused() -> None:
    assert metadata().request(0).allow_auto_topic_creation
    assert not metadata(auto_create=False).request(0).allow_auto_topic_creation


# --- when it is asked ------------------------------------------------------------------------------------------------


def test_failures_make_the_next_question_wait_longer_and_longer() -> None:
    known = metadata()
    waits: list[float] = []
    for _ in range(5):
        known.request(0)
        known.update_failed(NotConnected("no"), 0)
        waits.append(known.due_ms(0))
    assert waits == [100, 200, 400, 800, 1000]
    assert isinstance(known.failure, NotConnected)
    told(known, answer())
    assert known.failure is None


def test_looking_does_not_change_when_it_is_due() -> None:
    known = metadata()
    known.request(0)
    known.update_failed(NotConnected("no"), 0)
    assert known.due_ms(0) == known.due_ms(0) == 100


def test_answers_that_bring_nothing_new_make_the_next_question_wait() -> None:
    known = knows_orders()
    told(known, answer(topic("orders", partition(0, 1, epoch=5))))
    known.request_update()
    assert known.due_ms(0) == 100
    told(known, answer(topic("orders", partition(0, 2, epoch=6))))
    known.request_update()
    assert known.due_ms(0) == 0


def test_new_topics_of_a_failed_question_are_asked_for_again() -> None:
    known = knows_orders()
    known.want("bills", now_ms=0)
    known.request(0)
    known.update_failed(NotConnected("no"), 0)
    assert asked_names(known, 100) == ["bills", "orders"]


def test_an_answer_without_brokers_is_a_failure() -> None:
    known = told(knows_orders(), answer(nodes=()))
    assert known.nodes() == (ONE, TWO)
    assert "names no broker" in str(known.failure)


# --- beginning again -------------------------------------------------------------------------------------------------


def test_rebootstrap_asks_the_bootstrap_addresses_and_keeps_what_is_known_until_the_answer() -> None:
    known = knows_orders()
    assert known.rebootstrap(0)
    assert known.nodes_to_ask() == BOOT
    assert known.leader_of(ORDERS_0) == ONE
    told(known, answer(topic("orders", partition(0, 2, epoch=0))))
    assert known.leader_of(ORDERS_0) == TWO
    assert known.nodes_to_ask() == (ONE, TWO)


def test_rebootstrap_can_be_forbidden() -> None:
    known = knows_orders(rebootstrap_allowed=False)
    assert not known.rebootstrap(0)
    assert known.nodes_to_ask() == (ONE, TWO)


def test_rebootstrap_is_due_when_nobody_answered_for_long() -> None:
    known = knows_orders(rebootstrap_trigger_ms=1000)
    known.request_update()
    known.request(10)
    known.update_failed(NotConnected("no"), 500)
    known.request(600)
    assert not known.needs_rebootstrap(1009)
    assert known.needs_rebootstrap(1010)
    known.update(answer(), 1010)
    assert not known.needs_rebootstrap(5000)


def test_a_broker_may_ask_for_it() -> None:
    known = knows_orders()
    known.request(0)
    response = answer()
    response.error_code = RebootstrapRequired.code
    known.update(response, 0)
    assert known.nodes_to_ask() == BOOT


def test_whoever_sends_the_questions_hears_that_one_is_due() -> None:
    known = knows_orders()
    heard: list[str] = []
    known.on_request = lambda: heard.append("due")
    known.request_update()
    known.want_only(["orders", "bills"])
    assert heard == ["due", "due"]
