"""Objects that see what a consumer reads and commits. What they raise is logged and goes no further.

    on_consume(records) -> records      before poll() returns them; may give others
    on_commit(offsets)                  after they were committed
    close()                             at the end

Each of the three may be left out. Interceptors are called in the order they were given, each with what the one before
it gave.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ottla.client.consumer.record_choice import ConsumerRecord
from ottla.values import OffsetAndMetadata, TopicPartition

log = logging.getLogger(__name__)


class ConsumerInterceptor(Protocol):
    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]: ...
    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...
    def close(self) -> None: ...


class Interceptors:
    """All of them as one."""

    def __init__(self, interceptors: Iterable[Any]) -> None:
        self._all = [each() if isinstance(each, type) else each for each in interceptors]

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        for each in self._all:
            if (call := getattr(each, "on_consume", None)) is None:
                continue
            try:
                records = call(records)
            except Exception:
                log.exception("the interceptor %r failed in on_consume; its records are given as they were", each)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._call("on_commit", dict(offsets))

    def close(self) -> None:
        self._call("close")

    def _call(self, name: str, *arguments: Any) -> None:
        for each in self._all:
            try:
                if (call := getattr(each, name, None)) is not None:
                    call(*arguments)
            except Exception:
                log.exception("the interceptor %r failed in %s", each, name)
