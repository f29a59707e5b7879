"""Records that nobody could work on go to another topic: with their key, value, time and headers, and with why.

    ottla.dead.letter.topic, .partition, .offset    where the record came from
    ottla.dead.letter.group, .deliveries            whose it was, and how often it was delivered
    ottla.dead.letter.error, .message               what the handler raised; without them a delivery was never answered

1. The record is rejected when the brokers have its copy, never before; so a copy may come twice, and none is lost.
2. Its lock is renewed meanwhile. If the copy cannot be written, the record is released and comes again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.client.settings import ClientSettings
from ottla.settings import Source

if TYPE_CHECKING:
    from ottla.client.producer.async_producer import AsyncProducer
    from ottla.client.share.records import ShareRecord
    from ottla.client.share.settings import ShareConsumerSettings

PREFIX: Final = "ottla.dead.letter."
MESSAGE_LIMIT: Final = 1_000


def reasons(record: ShareRecord, group_id: str, cause: BaseException | None) -> list[tuple[str, bytes]]:
    """The headers that say why."""
    found: dict[str, str] = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "group": group_id,
        "deliveries": str(record.delivery_count),
    }
    if cause is not None:
        found["error"] = type(cause).__qualname__
        found["message"] = str(cause)[:MESSAGE_LIMIT]
    return [(PREFIX + name, text.encode()) for name, text in found.items()]


def producer_settings(settings: ShareConsumerSettings) -> Mapping[str, object]:
    """How the consumer reaches its brokers is how the producer of its dead letters does."""
    known = {each.name for each in ClientSettings.declared()}
    used = {name: value for name, value in settings.written(Source.STATIC).items() if name in known}
    used["client.id"] = f"{settings.client_id}-dead-letters"
    return used


class DeadLetters:
    """Writes them. Made in the caller's thread, used on the loop."""

    def __init__(self, settings: ShareConsumerSettings, **world: Any) -> None:
        from ottla.client.producer.async_producer import AsyncProducer

        assert settings.share_dead_letter_topic is not None, "made only with a topic"
        assert settings.group_id is not None, "share consumers have a group"
        self.topic: Final = settings.share_dead_letter_topic
        self.deliveries: Final = settings.share_dead_letter_deliveries
        self._group_id = settings.group_id
        self._producer: AsyncProducer = AsyncProducer(producer_settings(settings), **world)

    async def write(self, record: ShareRecord, cause: BaseException | None) -> None:
        """Returns when the brokers have the copy."""
        raw = record._record
        await self._producer.send_and_wait(
            self.topic,
            raw.value,
            key=raw.key,
            timestamp_ms=raw.timestamp_ms if raw.timestamp_ms >= 0 else None,
            headers=[*map(tuple, raw.headers), *reasons(record, self._group_id, cause)],
        )

    async def close(self, timeout_s: float) -> None:
        await self._producer.close(timeout_s)
