"""What becomes of a request to the admin listener that wants a login. Alone here: hashes are loaded only with one."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """What becomes of a request."""

    WELCOME = "may read"
    UNKNOWN = "has not logged in"
    REFUSED = "is known and may not"
