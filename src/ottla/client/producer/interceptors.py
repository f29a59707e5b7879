"""Objects of the user's that see every record: before it is sent, and when its fate is known.

An interceptor has one or both of
    on_send(record: ProducerRecord) -> ProducerRecord          may give another record
    on_acknowledgement(metadata: RecordMetadata | None, error: OttlaError | None)
and perhaps close(). They are called in the order of interceptor.classes; what they raise is logged and never reaches
the sender of the record: the record goes on as the interceptor before left it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from ottla.client.producer.values import ProducerRecord, RecordMetadata
from ottla.errors import OttlaError

log = logging.getLogger(__name__)


class Interceptors:
    """All interceptors of one producer."""

    def __init__(self, interceptors: Iterable[Any]) -> None:
        made = [each() if isinstance(each, type) else each for each in interceptors]
        self._all = made
        self._on_send = _methods(made, "on_send")
        self._on_acknowledgement = _methods(made, "on_acknowledgement")
        self._close = _methods(made, "close")

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record as the last interceptor left it."""
        for call in self._on_send:
            try:
                record = call(record) or record
            except Exception:
                log.warning("an interceptor failed in on_send; the record goes on without it", exc_info=True)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: OttlaError | None) -> None:
        """The record was delivered, or was not; without metadata it never got a partition."""
        for call in self._on_acknowledgement:
            try:
                call(metadata, error)
            except Exception:
                log.warning("an interceptor failed in on_acknowledgement", exc_info=True)

    def close(self) -> None:
        for call in self._close:
            try:
                call()
            except Exception:
                log.warning("an interceptor failed in close", exc_info=True)


def _methods(interceptors: Iterable[Any], name: str) -> list[Callable[..., Any]]:
    return [getattr(each, name) for each in interceptors if hasattr(each, name)]
