"""A value has one place, and a place has one value."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.simulation.checker.anomaly import Anomaly
from ottla.simulation.checker.facts import Facts


def check_places(facts: Facts) -> Iterator[Anomaly]:
    """misrouted, duplicate, inconsistent-offsets."""
    for value, places in facts.offsets_of.items():
        where = ", ".join(f"{partition}:{offset}" for partition, offset in sorted(places))
        send = facts.sends.get(value)
        if send is None:
            yield Anomaly("misrouted", f"{value} is at {where}, and nobody sent it")
        elif any(partition != send.partition for partition, _ in places):
            yield Anomaly("misrouted", f"{value} was sent to partition {send.partition} and is at {where}")
        elif len(places) > 1 and not any(facts.is_hit(*place) for place in places):
            yield Anomaly("duplicate", f"{value} is at {where}")
    for (partition, offset), values in facts.values_at.items():
        if len(values) > 1:
            yield Anomaly("inconsistent-offsets", f"{partition}:{offset} has the values {sorted(values)}")
