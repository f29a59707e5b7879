"""Settings of the admin client: the common ones, with nothing of its own but their defaults."""

from __future__ import annotations

from typing import ClassVar

from ottla.client.settings import ClientSettings


class AdminSettings(ClientSettings):
    """What an admin client can be told."""

    topics_are_made_by_asking: ClassVar[bool] = False
