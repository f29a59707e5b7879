"""What is shown of a key, a value or a header: text as text, JSON as JSON, anything else as bytes.

The page puts all of it on the screen as text; nothing of a record is ever markup. `kind` says what it is:

    null     there is none
    json     text that is a JSON object or list; `text` has it as it is
    text     UTF-8 without control characters
    schema   a frame of a schema registry: a zero, four bytes of an id, and what the schema says, as hexadecimal digits;
             where that is JSON, the kind is json and `schema_id` says which schema. Where the registry has the schema
             the kind is json, `text` what it means, and `schema` its kind, subject and version; otherwise `problem`
             says why not
    bytes    anything else, as hexadecimal digits
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from ottla.bounded_json import read_json
from ottla.broker.http.parts import Json

if TYPE_CHECKING:
    from ottla.broker.registry.readers import ReadRecord

SHOWN_LIMIT_BYTES: Final = 16 * 1024
HEX_LIMIT_BYTES: Final = 2 * 1024
FRAME_BYTES: Final = 5

_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def shown(content: bytes | None, limit_bytes: int = SHOWN_LIMIT_BYTES) -> dict[str, Json]:
    """At most so much of it; `is_cut` says that there is more."""
    if content is None:
        return {"kind": "null", "text": "", "size": 0, "is_cut": False}
    if content[:1] == b"\x00" and len(content) >= FRAME_BYTES:
        framed = {"schema_id": int.from_bytes(content[1:FRAME_BYTES]), "size": len(content)}
        payload = content[FRAME_BYTES:]
        if len(payload) <= limit_bytes and _is_json(payload):  # of a JSON Schema
            return {**shown(payload, limit_bytes), **framed}
        return {**_hex(payload), "kind": "schema", **framed}
    text = _text(content, limit_bytes)
    if text is None:
        return {**_hex(content), "size": len(content)}
    is_cut = len(content) > limit_bytes
    kind = "json" if not is_cut and _is_json(content) else "text"
    return {"kind": kind, "text": text, "size": len(content), "is_cut": is_cut}


def shown_read(
    content: bytes | None, found: ReadRecord | None, subject: str, limit_bytes: int = SHOWN_LIMIT_BYTES
) -> dict[str, Json]:
    """The same of a record that was read by the schema that it names, or could not be; `subject` is where its topic has
    its schemas."""
    if found is None or content is None:
        return shown(content, limit_bytes)
    name, version = found.schema.place(subject)
    schema: dict[str, Json] = {"kind": found.schema.kind, "subject": name, "version": version}
    if not found.is_read:
        made = {**shown(content, limit_bytes), "problem": found.problem}
        return {**made, "schema": schema} if found.schema.kind else made
    try:
        text = json.dumps(found.value, ensure_ascii=False).encode("utf-8", "replace")
    except RecursionError:
        return {**shown(content, limit_bytes), "problem": "it is nested too deeply to be shown", "schema": schema}
    head = text[:limit_bytes].decode("utf-8", "ignore")
    is_cut = len(text) > limit_bytes
    made = {"kind": "text" if is_cut else "json", "text": head, "is_cut": is_cut, "size": len(content)}
    return {**made, "schema_id": found.schema_id, "schema": schema}


def _text(content: bytes, limit_bytes: int) -> str | None:
    """None where it is no text. What was cut may end within a character."""
    head = content[:limit_bytes]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if len(content) <= limit_bytes or error.start < len(head) - 3:
            return None
        text = head[: error.start].decode()
    return None if _CONTROL.search(text) else text


def _is_json(content: bytes) -> bool:
    if content[:1] not in (b"{", b"["):
        return False
    try:
        read_json(content)
    except (ValueError, RecursionError):
        return False
    return True


def _hex(content: bytes) -> dict[str, Json]:
    head = content[:HEX_LIMIT_BYTES]
    return {"kind": "bytes", "text": head.hex(" "), "is_cut": len(content) > len(head), "size": len(content)}
