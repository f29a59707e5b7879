"""Is what a member says about records a statement at all; whether it is true is up to the share partition.

Kafka's rules: batches are in order and do not overlap, have one type or one for each offset, and only known types.
RENEW needs a request that says so (from version 2 on), and a group that allows it. What a member may not do with its
records in this group, and a record that it names twice, are INVALID_RECORD_STATE; the rest is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.sharing.share_partition import Acknowledgement
from ottla.broker.sharing.states import AcknowledgeType
from ottla.errors import InvalidRecordState, InvalidRequest


class WireBatch(Protocol):
    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def acknowledge_types(self) -> Sequence[int]: ...


def read_acknowledgements(batches: Sequence[WireBatch], *, is_renewing: bool, may_renew: bool) -> list[Acknowledgement]:
    """`is_renewing`: the request says that it renews; `may_renew`: the group allows it."""
    found: list[Acknowledgement] = []
    previous = -1
    highest = AcknowledgeType.RENEW if is_renewing else AcknowledgeType.REJECT
    for each in batches:
        first, last, types = each.first_offset, each.last_offset, each.acknowledge_types
        if first > last or first < previous:
            raise InvalidRequest(f"acknowledgement batch {first}-{last} is out of order")
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            raise InvalidRequest(f"acknowledgement batch {first}-{last} has {len(types)} types")
        if any(not AcknowledgeType.GAP <= kind <= highest for kind in types):
            raise InvalidRequest(f"acknowledgement batch {first}-{last} has an unknown type")
        if first == previous:
            raise InvalidRecordState(f"the record at offset {first} is acknowledged twice")
        if not may_renew and AcknowledgeType.RENEW in types:
            raise InvalidRecordState("this group does not renew locks")
        previous = last
        found.append(Acknowledgement(first, last, types))
    return found
