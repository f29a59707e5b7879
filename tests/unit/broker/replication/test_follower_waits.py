"""A follower that waits at its leader: one answer has what all partitions got in one turn, and nothing is read before.

Docs: decision 0052.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.fetch.attempt import Attempt
from ottla.broker.fetch.sessions import FetchPosition
from ottla.errors import KafkaStorageError
from ottla.values import TopicPartition

NAME = TopicPartition("orders", 0)


def partition(**values: Any) -> Any:
    facts = {"in_sync": object(), "offline": None, "leader_epoch": 3, "end": SimpleNamespace(log_end_offset=10)}
    return SimpleNamespace(**{**facts, **values})


def is_news(found: Any, *, fetch_offset: int = 10, epoch: int = 3, is_throttled: bool = False) -> bool:
    attempt: Any = object.__new__(Attempt)
    attempt._broker = SimpleNamespace(replicas={NAME: found} if found is not None else {})
    attempt._reader = SimpleNamespace(is_throttled=lambda _: is_throttled)
    wanted = {NAME: FetchPosition(fetch_offset, 1_000_000, current_leader_epoch=epoch)}
    assert attempt._has_news(wanted) is attempt._is_news(wanted, NAME)
    return bool(attempt._is_news(wanted, NAME))


def test_a_follower_that_has_everything_waits_on() -> None:
    assert not is_news(partition())


def test_a_follower_is_woken_by_a_log_that_has_grown() -> None:
    assert is_news(partition(), fetch_offset=9)


def test_a_throttled_follower_is_not_woken_by_what_it_may_not_have() -> None:
    assert not is_news(partition(), fetch_offset=9, is_throttled=True)


@pytest.mark.parametrize(
    "found",
    [None, partition(in_sync=None), partition(offline=KafkaStorageError("a bad disk")), partition(leader_epoch=4)],
)
def test_a_follower_must_hear_of_a_partition_that_is_gone_failed_or_led_anew(found: Any) -> None:
    assert is_news(found)


def test_a_follower_that_names_no_epoch_is_not_woken_by_the_leaders() -> None:
    assert not is_news(partition(), epoch=-1)
