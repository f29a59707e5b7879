"""A member of a share group, as an immutable value: what it reported, and what it reads."""

from __future__ import annotations

from ottla.broker.coordinators.groups.consumer.member import Target
from ottla.light_dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ShareMember:
    member_id: str
    # what it reported
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    # what it reads
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Target = field(default_factory=dict)
