"""The assignors of a member, by the names that partition.assignment.strategy has for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.consumer.membership.assignors import Assignor, RangeAssignor, RoundRobinAssignor
from ottla.client.consumer.membership.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.errors import InvalidSetting

BUILT_IN: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
}

_JAVA_NAMES: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def find_assignors(names: Iterable[str], custom: Mapping[str, Assignor]) -> tuple[Assignor, ...]:
    """In the order given; Java's class names are understood. InvalidSetting names what is not known."""
    found = {}
    for name in names:
        short = _JAVA_NAMES.get(name.rpartition(".")[2], name.replace("_", "-") if "_" in name else name)
        assignor = custom.get(name) or BUILT_IN.get(short) or BUILT_IN.get(short.replace("-", ""))
        if assignor is None:
            known = ", ".join([*BUILT_IN, *custom])
            raise InvalidSetting(f"partition.assignment.strategy: there is no {name!r}; known are {known}")
        found[assignor.name] = assignor
    if not found:
        raise InvalidSetting("partition.assignment.strategy names no assignor")
    return tuple(found.values())
