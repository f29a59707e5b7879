"""What a topic may be called: Kafka's rules.

1. 1 to 249 letters, digits, ".", "_" and "-" of ASCII; not "." and not "..", because a name becomes a directory.
2. "a.b" and "a_b" may not both exist: names of metrics turn "." into "_", and the two would be one there.
3. Internal topics can be read by all and written only by the broker; the metadata topic cannot even be made.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.errors import InvalidTopicException

LENGTH_LIMIT: Final = 249
GROUP_METADATA: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
SCHEMAS: Final = "_schemas"
"""Of the schema registry. It is no internal topic: who may write topics may restore a backup of it."""
CLUSTER_METADATA: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA, TRANSACTION_STATE, SHARE_GROUP_STATE})

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def name_problem(name: str) -> str | None:
    """What is wrong with a name, or None."""
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return f"{name!r} is a directory on every disk"
    if len(name) > LENGTH_LIMIT:
        return f"it has {len(name)} characters and the limit is {LENGTH_LIMIT}"
    if not _LEGAL.fullmatch(name):
        return f"{name!r} contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_name(name: str) -> None:
    """InvalidTopicException when a topic cannot be called that."""
    if problem := name_problem(name):
        raise InvalidTopicException(f"the topic name is not possible: {problem}")


def is_legal_name(name: str) -> bool:
    return name_problem(name) is None


def collision_key(name: str) -> str | None:
    """What the names that collide with this one have in common; None when none can."""
    return name.replace(".", "_") if "." in name or "_" in name else None
