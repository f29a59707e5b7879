"""Settings of the admin client: the common ones, with nothing of its own but their defaults."""

from __future__ import annotations

from typing import ClassVar

from ottla.client.settings import ClientSettings
from ottla.settings import LONG, setting


class AdminSettings(ClientSettings):
    """What an admin client can be told."""

    topics_are_made_by_asking: ClassVar[bool] = False

    connections_max_idle_ms = setting(
        "connections.max.idle.ms",
        LONG,
        default=300_000,
        at_least=-1,
        unit="ms",
        doc="A connection that is not used for so long is closed; -1 keeps it.",
    )
