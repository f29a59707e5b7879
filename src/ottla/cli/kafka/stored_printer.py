"""Formatters of kafka-console-consumer for the cluster's own topics: one JSON object for each record.

    --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter
    {"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":{"version":4,"data":{"offset":5,...}}}

1. Each formatter prints the kinds of records that it is for, and passes over all others, unknown ones too.
2. As Apache's print them: bytes are base64, a deleted record has `"value":null`, and no line end stands between two
   objects.
3. A record that cannot be read ends the command, or is passed over with --skip-message-on-error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ottla.cli.kafka.java_json import java_json
from ottla.cli.kafka.record_printer import UnreadableBytes
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.protocol.schema import Message

GROUPS, TRANSACTIONS, SHARE_STATE = "OFFSETS", "TRANSACTIONS", "SHARE_STATE"
EVERY_TYPE: Final = frozenset(range(1 << 15))
STORED: Final[Mapping[str, tuple[str, frozenset[int]]]] = {
    "OffsetsMessageFormatter": (GROUPS, frozenset({0, 1})),
    "GroupMetadataMessageFormatter": (GROUPS, frozenset({2})),
    "ShareGroupMessageFormatter": (GROUPS, frozenset(range(10, 16))),
    "TransactionLogMessageFormatter": (TRANSACTIONS, EVERY_TYPE),
    "group.share.ShareGroupStateMessageFormatter": (SHARE_STATE, EVERY_TYPE),
}
"""Formatter: the files of protocol/stored that know its records, and which types it prints."""


class StoredPrinter:
    """One formatter."""

    def __init__(self, name: str) -> None:
        from ottla.cli.kafka import stored_json

        modules, self._types = STORED[name]
        self._kinds: dict[type[Message], type[Message]] = stored_json.kinds_of(getattr(stored_json, modules))

    def __call__(self, record: Any, stream: BinaryIO) -> None:
        if record.key is None:
            return
        try:
            shown = self._shown(bytes(record.key), None if record.value is None else bytes(record.value))
        except OttlaError as error:
            raise UnreadableBytes(f"Could not read record at offset {record.offset} due to: {error}") from None
        if shown is not None:
            stream.write(java_json(shown).encode())

    def _shown(self, key: bytes, value: bytes | None) -> dict[str, Any] | None:
        from ottla.cli.kafka.stored_json import as_json
        from ottla.protocol.stored import decode_key, decode_value, split_lead

        found = decode_key(self._kinds, key)
        if found is None or found.record_type not in self._types:
            return None
        content = None
        if value is not None:
            version = split_lead(value)[0]
            content = {"version": version, "data": as_json(decode_value(self._kinds[type(found)], value), version)}
        return {"key": {"type": found.record_type, "data": as_json(found, 0)}, "value": content}
