"""JSON that others sent, read within a bound: one call into C keeps the interpreter's lock until all of it is read.

    read_json(body)          raises TooManyValues, a ValueError like that for what is no JSON

How long that takes grows with the number of values and hardly with the number of bytes: a megabyte of text is read in a
millisecond, a megabyte of `[],[],[]` in a hundred. So the values are counted first, in the way in which bytes can be
counted quickly: brackets and commas outside of texts, and names. Above VALUES_MAX nothing is read.
"""

from __future__ import annotations

import json
from typing import Any, Final

VALUES_MAX: Final = 50_000
_FEW_BYTES: Final = 16_384


class TooManyValues(ValueError):
    """The text is JSON, perhaps, but has more values than are read."""


def read_json(content: bytes | str, values_max: int = VALUES_MAX) -> Any:
    """What json.loads makes of it."""
    if len(content) > _FEW_BYTES:
        check_values(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content, values_max)
    return json.loads(content)


def check_values(content: bytes, values_max: int = VALUES_MAX) -> None:
    """Raise TooManyValues where it has more."""
    if _signs(content) + content.count(b'"') // 2 <= values_max:
        return  # also when some of the signs are part of texts
    if content.count(b"\\"):
        content = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    texts = content.count(b'"') // 2
    if texts > 2 * values_max or _signs(b"".join(content.split(b'"')[::2])) > values_max:
        raise TooManyValues(f"it has more than {values_max} values; send it in several parts")


def _signs(content: bytes) -> int:
    return content.count(b",") + content.count(b"[") + content.count(b"{")
