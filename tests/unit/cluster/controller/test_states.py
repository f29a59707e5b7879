"""The tables of states: what may follow what, and what an illegal move says."""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.changes import RemoveTopic
from ottla.cluster.controller import controller
from ottla.cluster.controller import partition_states as partitions
from ottla.cluster.controller import replica_states as replicas
from ottla.cluster.controller.controller import decide
from ottla.cluster.controller.events import ChangeAsked
from ottla.cluster.controller.moves import IllegalMove, move
from ottla.cluster.controller.state import Decided
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import NO_LEADER, Partition, Topic
from ottla.cluster.plan import Plan
from ottla.cluster.shared_map import SharedMap
from ottla.values import TopicPartition

TABLES: list[Mapping[Any, Set[Any]]] = [partitions.MOVES, replicas.MOVES]


@pytest.mark.parametrize("table", TABLES)
def test_every_state_has_its_row_and_every_move_ends_in_a_state(table: Mapping[Any, Set[Any]]) -> None:
    (kind,) = {type(state) for state in table}
    assert set(table) == set(kind)
    assert set().union(*table.values()) <= set(kind)


@pytest.mark.parametrize("table", TABLES)
def test_every_state_can_be_reached_and_left(table: Mapping[Any, Set[Any]]) -> None:
    (kind,) = {type(state) for state in table}
    first = kind("non-existent")
    reached, seen = {first}, set()
    while reached - seen:
        here = (reached - seen).pop()
        seen.add(here)
        reached |= table[here]
    assert reached == set(kind)
    assert all(table.values())


@given(st.data(), st.sampled_from(TABLES))
def test_a_way_is_gone_to_its_end_or_not_at_all(data: st.DataObject, table: Mapping[Any, Set[Any]]) -> None:
    path = data.draw(st.lists(st.sampled_from(list(table)), min_size=1, max_size=6))
    if all(there in table[here] for here, there in pairwise(path)):
        assert move(table, "it", path) is path[-1]
    else:
        with pytest.raises(IllegalMove):
            move(table, "it", path)


def test_an_illegal_move_tells_its_story() -> None:
    with pytest.raises(
        IllegalMove, match="replica orders-0 on 1 cannot go from deletion successful to online"
    ) as found:
        replicas.move_replica(
            "orders-0 on 1",
            replicas.OFFLINE,
            replicas.DELETION_STARTED,
            replicas.DELETION_SUCCESSFUL,
            replicas.ONLINE,
        )
    assert "offline -> deletion started -> deletion successful -> online" in str(found.value)


def test_the_state_of_a_partition_is_read_off_the_image(stage: Any) -> None:
    name = TopicPartition("orders", 0)
    assert partitions.state_of(stage.image, name) is partitions.NON_EXISTENT
    stage.create("orders", (2,))
    assert partitions.state_of(stage.image, name) is partitions.ONLINE
    stage.crash(2)
    stage.quiet()
    assert partitions.state_of(stage.image, name) is partitions.OFFLINE
    never_led = Partition((1,), (), NO_LEADER, leader_epoch=-1, partition_epoch=-1)
    image = ClusterImage("c", topics_by_name=SharedMap([("x", Topic("x", b"x" * 16, (never_led,)))]))
    assert partitions.state_of(image, TopicPartition("x", 0)) is partitions.NEW


def test_a_decision_that_moves_as_it_must_not_is_not_made(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is there and serves cannot be gone in one step, whoever wants it."""
    stage.create("orders", (1,))
    wrong = Decided(stage.state, (RemoveTopic(stage.image.topic_id("orders")),))
    monkeypatch.setitem(controller._DECIDERS, ChangeAsked, lambda state, event: wrong)  # type: ignore[arg-type]
    with pytest.raises(IllegalMove, match="online to non-existent"):
        decide(stage.state, ChangeAsked(lambda image: Plan((), [])))
