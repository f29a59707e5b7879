"""Callbacks of commits in the background: they wait until the next poll, which calls them in its caller's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.values import OffsetAndMetadata, TopicPartition

CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], "OttlaError | None"], Any]


@dataclass(frozen=True, slots=True)
class CallbackDue:
    """A commit ended, well or not."""

    callback: CommitCallback
    offsets: dict[TopicPartition, OffsetAndMetadata]
    error: OttlaError | None
