"""Secrets that nobody may see: random texts, the forms in which they could show, and where everything shown is kept.

canaries = Canaries()
password = canaries.new("password of alice")        # 24 characters, some of which every encoding changes
canaries.watch("an answer", answer)                  # anything: bytes, or an object whose repr counts
canaries.found()                                     # [("password of alice", "base64", "an answer"), ...]
"""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Iterator, Mapping
from urllib.parse import quote

LENGTH = 24
ODD = "/+=%&"
"""Texts with these look different in a URL. Double quotes and backslashes would need quoting in JAAS."""
SHORTEST = 20
"""Nothing shorter can have a canary in it."""


class Canaries:
    """See above."""

    def __init__(self) -> None:
        self.secrets: dict[str, bytes] = {}
        self._seen: dict[bytes, str] = {}  # what was shown, and where first
        self._lately: dict[bytes, str] = {}

    def new(self, name: str) -> str:
        letters = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(LENGTH - len(ODD)))
        made = letters[:10] + ODD + letters[10:]
        self.add(name, made.encode())
        return made

    def add(self, name: str, secret: bytes) -> None:
        """One that somebody else made."""
        self.secrets[name] = secret

    def watch(self, where: str, shown: object) -> None:
        """Keep what somebody could have seen."""
        data = shown if isinstance(shown, bytes) else _text(shown)
        if data not in self._seen and len(data) >= SHORTEST:
            self._seen[data] = self._lately[data] = where

    @property
    def seen_bytes(self) -> int:
        return sum(map(len, self._seen))

    def found(self) -> list[tuple[str, str, str]]:
        """Every secret that shows somewhere, in which form, and where."""
        return self._found_in(self._seen)

    def found_lately(self) -> list[tuple[str, str, str]]:
        lately, self._lately = self._lately, {}
        return self._found_in(lately)

    def _found_in(self, seen: Mapping[bytes, str]) -> list[tuple[str, str, str]]:
        everything = b"\n".join(seen)
        return [
            (name, form, where)
            for name, secret in self.secrets.items()
            for form, pattern in forms_of(secret)
            if pattern in everything
            for data, where in seen.items()
            if pattern in data
        ]


def forms_of(secret: bytes) -> Iterator[tuple[str, bytes]]:
    """How a secret could be written. In the middle of something longer its base64 has three shapes, one for each
    place where it can begin; the letters at both ends depend on the neighbours and are left away."""
    yield "plain", secret
    yield "repr", repr(secret)[2:-1].encode()
    yield "hex", secret.hex().encode()
    yield "HEX", secret.hex().upper().encode()
    yield "url", quote(secret, safe="").encode()
    yield "numbers", ", ".join(map(str, secret)).encode()
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + secret)
        begin, end = (4 if shift else 0), -4
        for name, alphabet in (("base64", encoded), ("base64url", encoded.translate(bytes.maketrans(b"+/", b"-_")))):
            yield f"{name}, shifted by {shift}", alphabet[begin:end]


def _text(shown: object) -> bytes:
    return (shown if isinstance(shown, str) else f"{shown!r} {shown}").encode(errors="backslashreplace")
