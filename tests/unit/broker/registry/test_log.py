"""What a leader of _schemas knows before it answers, without a cluster."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.registry.errors import RegistryError
from ottla.broker.registry.log import SchemaLog
from ottla.records import BatchBuilder
from ottla.testing.clock import ManualClock

KEY = {"keytype": "SCHEMA", "magic": 1}


def batch(number: int) -> bytes:
    """A schema of its own, as the record at that offset."""
    builder = BatchBuilder(size_limit_bytes=10_000)
    key = {**KEY, "subject": f"s{number}", "version": 1}
    value = {"subject": f"s{number}", "version": 1, "id": number + 1, "schema": '"string"', "deleted": False}
    builder.append(0, json.dumps(key).encode(), json.dumps(value).encode())
    content = bytearray(builder.close())
    content[0:8] = number.to_bytes(8)
    return bytes(content)


class Commits:
    """Whoever waits for a commit sees it, or does not."""

    def __init__(self, partition: Any) -> None:
        self.partition = partition
        self.comes = True
        self.waited_for: list[int] = []

    async def wait(self, pending: Any, deadline_ms: float) -> bool:
        self.waited_for.append(pending.next_offset)
        if self.comes:
            self.partition.high_watermark = pending.next_offset
        return bool(pending.is_over())


class Pace:
    def release(self) -> None: ...
    async def step(self) -> None: ...


def elected(high_watermark: int, end_offset: int) -> tuple[SchemaLog, Commits]:
    content = b"".join(map(batch, range(end_offset)))
    partition = SimpleNamespace(
        topic_id=b"t" * 16,
        leader_epoch=3,
        high_watermark=high_watermark,
        log=SimpleNamespace(log_start_offset=0, log_end_offset=end_offset),
        check_leader=lambda: None,
        read=lambda *where, **how: SimpleNamespace(slice=SimpleNamespace(read=lambda: content)),
    )
    commits = Commits(partition)
    broker: Any = SimpleNamespace(
        replicas={("_schemas", 0): partition},
        progress=SimpleNamespace(commits=commits),
        clock=ManualClock(),
        settings=SimpleNamespace(request_timeout_ms=30_000),
    )
    return SchemaLog(broker), commits


def test_a_new_leader_knows_what_the_one_before_it_may_have_answered() -> None:
    """Its high watermark is that of its last fetch: an id that was given would be given again."""
    log, commits = elected(high_watermark=2, end_offset=3)
    asyncio.run(log.catch_up(Pace()))  # type: ignore[arg-type]
    assert commits.waited_for == [3]
    assert sorted(log.state.subjects) == ["s0", "s1", "s2"]


def test_a_leader_whose_log_is_committed_waits_for_nothing() -> None:
    log, commits = elected(high_watermark=3, end_offset=3)
    asyncio.run(log.catch_up(Pace()))  # type: ignore[arg-type]
    assert commits.waited_for == []


def test_what_is_not_committed_in_time_is_said_and_nothing_is_known() -> None:
    log, commits = elected(high_watermark=2, end_offset=3)
    commits.comes = False
    with pytest.raises(RegistryError, match="not committed in time"):
        asyncio.run(log.catch_up(Pace()))  # type: ignore[arg-type]
    assert not log.state.subjects
