"""Cipher suites by Java's names or by OpenSSL's.

1. As in Java a list covers all versions: a version that no suite of the list belongs to is not spoken.
2. Python below 3.15 cannot choose among the three suites of TLS 1.3, all of them good. A list that leaves one of them
   out is refused there, because nobody shall believe that it was left out.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Any, Final

from ottla.errors import InvalidSetting

TLS13_SUITES: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_TLS13: Final = re.compile(r"TLS_(AES|CHACHA20)_")


def choose_ciphers(context: ssl.SSLContext, ciphers: Sequence[str]) -> None:
    """Let a context use these suites only; an empty list leaves the choice to the library."""
    if not ciphers:
        return
    newer = [cipher for cipher in ciphers if _TLS13.match(cipher)]
    older = [openssl_name(cipher) for cipher in ciphers if not _TLS13.match(cipher)]
    _limit_versions(context, has_older=bool(older), has_newer=bool(newer))
    if newer:
        _choose_newer(context, newer)
    if older:
        _choose_older(context, older)


def _limit_versions(context: ssl.SSLContext, *, has_older: bool, has_newer: bool) -> None:
    if not has_newer:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not has_older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if context.minimum_version > context.maximum_version:
        raise InvalidSetting("ssl.cipher.suites has no suite of the versions in ssl.enabled.protocols")


def _choose_newer(context: Any, names: list[str]) -> None:
    unknown = [name for name in names if name not in TLS13_SUITES]
    if unknown:
        raise InvalidSetting(
            f"ssl.cipher.suites: {', '.join(unknown)} is not known; there is {', '.join(TLS13_SUITES)}"
        )
    if hasattr(context, "set_ciphersuites"):
        context.set_ciphersuites(":".join(names))
    elif set(names) < set(TLS13_SUITES):
        raise InvalidSetting(
            f"ssl.cipher.suites has {', '.join(names)}, but this Python cannot choose among the suites of TLS 1.3: "
            f"name all of {', '.join(TLS13_SUITES)}, or none of them, which leaves TLS 1.2"
        )


def _choose_older(context: ssl.SSLContext, names: list[str]) -> None:
    try:
        context.set_ciphers(":".join(names))
    except ssl.SSLError:
        raise InvalidSetting(f"ssl.cipher.suites: none of {', '.join(names)} is known") from None
    usable = {cipher["name"] for cipher in context.get_ciphers()}
    missing = [name for name in names if name not in usable and re.fullmatch(r"[A-Z0-9-]+-[A-Z0-9-]+", name)]
    if missing:
        raise InvalidSetting(f"ssl.cipher.suites: {', '.join(missing)} is not known, or too weak for this machine")


def openssl_name(cipher: str) -> str:
    """OpenSSL's name of a cipher suite that may be written as Java writes it."""
    if not cipher.startswith("TLS_"):
        return cipher
    name = cipher.removeprefix("TLS_").replace("_WITH_", "_").removeprefix("RSA_")
    name = re.sub(r"AES_(128|256)_CBC_", r"AES\1_", name)
    name = re.sub(r"AES_(128|256)_", r"AES\1_", name)
    return name.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").replace("_", "-")
