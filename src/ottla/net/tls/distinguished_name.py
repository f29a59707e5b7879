"""The subject of a certificate as Java writes it (X500Principal.getName(), RFC 2253): "CN=alice,OU=people,O=Ottla".

Rules about users are written with these texts, so they must be Java's to the letter, its oddities included:

1. The last part comes first; parts with several values are joined by "+", in the order of the certificate.
2. Nine attributes have names; every other one is its number, and its value is "#" and the hex of its DER.
3. Escaped by a backslash are , = + < > # ; " \\ wherever they are, and spaces at the beginning and the end; a null
   character is \\00.
4. A value is read as UTF-8 whatever its type says.
"""

from __future__ import annotations

from typing import Final

from ottla.net.tls.der import DerError, children, read_value

_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString; a UniversalString is none to Java
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANK: Final = " \r"
_VERSION_TAG: Final = 0xA0


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate (DER); DerError when it is none."""
    _, outer, _ = read_value(certificate, 0)
    _, inner, _ = read_value(outer, 0)
    fields = children(inner)
    first = 1 if fields and fields[0][0] == _VERSION_TAG else 0
    # serial number, signature algorithm, issuer, validity, subject
    if len(fields) < first + 5:
        raise DerError("no subject")
    return name_text(fields[first + 4][1])


def name_text(name: bytes) -> str:
    """A name (the content of its sequence) as text."""
    parts = [_part(content) for _, content in children(name)]
    return ",".join(reversed(parts))


def _part(content: bytes) -> str:
    return "+".join(_attribute(value) for _, value in children(content))


def _attribute(content: bytes) -> str:
    tag, number, after = read_value(content, 0)
    if tag != 0x06:
        raise DerError("an attribute without a type")
    kind = _dotted(number)
    tag, value, _ = read_value(content, after)
    if kind not in _NAMES or tag not in _TEXTS:
        return f"{_NAMES.get(kind, kind)}=#{content[after:].hex()}"
    return f"{_NAMES[kind]}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in text)
    core = escaped.strip(_BLANK)
    if not core:
        return "".join(f"\\{char}" for char in escaped)
    lead = len(escaped) - len(escaped.lstrip(_BLANK))
    before, after = escaped[:lead], escaped[lead + len(core) :]
    return "".join(f"\\{char}" for char in before) + core + "".join(f"\\{char}" for char in after)


def _dotted(content: bytes) -> str:
    """An object identifier as numbers with dots."""
    numbers: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise DerError("an empty object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
