"""PEM: certificates and keys as text, in a file or in a setting.

A key stays the text it is, because OpenSSL opens it (also a locked one); certificates become DER.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from ottla.errors import InvalidSetting
from ottla.light_tuples import NamedTuple

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----(.*?)-----END \1-----", re.DOTALL)
_CERTIFICATES: Final = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")


class Pem(NamedTuple):
    """What a text holds: certificates as DER in their order, keys as PEM blocks."""

    certificates: tuple[bytes, ...]
    keys: tuple[str, ...]


def read_pem(text: str, name: str) -> Pem:
    """The parts of a text; `name` is the file or the setting, for the error."""
    certificates: list[bytes] = []
    keys: list[str] = []
    for found in _BLOCK.finditer(restore_lines(text)):
        if found[1] in _CERTIFICATES:
            certificates.append(_decoded(found[2], name))
        elif found[1].endswith("PRIVATE KEY"):
            keys.append(f"{found[0]}\n")
    return Pem(tuple(certificates), tuple(keys))


def is_locked(key: str) -> bool:
    """Whether a key's PEM block is encrypted."""
    return "BEGIN ENCRYPTED PRIVATE KEY" in key or "Proc-Type: 4,ENCRYPTED" in key


def as_pem(label: str, content: bytes) -> str:
    """DER as a PEM block."""
    body = base64.encodebytes(content).decode("ascii")
    return f"-----BEGIN {label}-----\n{body}-----END {label}-----\n"


def restore_lines(pem: str) -> str:
    r"""PEM from a .properties file may have come with "\n" written out, or as one line with spaces for line ends."""
    text = pem.replace("\\n", "\n")
    if "\n" in text.strip():
        return text
    return _BLOCK.sub(_with_lines, text)


def _with_lines(found: re.Match[str]) -> str:
    return "\n".join([f"-----BEGIN {found[1]}-----", *found[2].split(), f"-----END {found[1]}-----", ""])


def _decoded(body: str, name: str) -> bytes:
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except ValueError:
        raise InvalidSetting(f"{name} has a certificate that is damaged: it is no base64") from None
