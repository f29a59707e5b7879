"""Who a consumer is in its group, as a producer shows it when it commits that group's offsets in a transaction."""

from __future__ import annotations

from typing import Final

from ottla.light_tuples import NamedTuple

UNKNOWN_GENERATION: Final = -1
UNKNOWN_MEMBER_ID: Final = ""


class GroupMetadata(NamedTuple):
    """A snapshot: take it again for each transaction, because every rebalance changes the generation.

    `generation_id` is the generation of the classic protocol or the member epoch of the consumer protocol.
    """

    group_id: str
    generation_id: int = UNKNOWN_GENERATION
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
