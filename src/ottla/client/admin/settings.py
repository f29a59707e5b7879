"""Settings of the admin client: the common ones, with nothing of its own but their defaults."""

from __future__ import annotations

from ottla.client.settings import ClientSettings


class AdminSettings(ClientSettings):
    """What an admin client can be told."""
