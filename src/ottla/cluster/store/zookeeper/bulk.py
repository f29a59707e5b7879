"""Many nodes in one question: ZooKeeper's multiRead (3.6 and newer), which kazoo does not have.

A controller that takes over reads the state of every partition. One question per node is 4,000 nodes a second, because
kazoo needs a quarter of a millisecond of Python for each; with a few hundred per question it is ten times as many.

    request     per node: type int32 = 4, done = 0, error int32 = -1, path string, watch = 0; then -1, 1, -1
    response    per node: type int32, done, error int32; for type 4: data buffer, stat; for type -1: error int32
                then type -1, done = 1

A server that does not know it answers with an error, and the session asks for each node alone.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from kazoo.protocol.serialization import ZnodeStat, read_buffer, write_string

from ottla.light_tuples import NamedTuple

_HEADER: Final = struct.Struct(">i?i")
_INT: Final = struct.Struct(">i")
_STAT: Final = struct.Struct(">qqqqiiiqiiq")
_GET_DATA: Final = 4
_ERROR: Final = -1
_END: Final = _HEADER.pack(_ERROR, True, -1)

NO_NODE: Final = -101


class ReadMany(NamedTuple):
    """A request as kazoo's own look to it: a type, and bytes both ways."""

    paths: Sequence[str]

    @property
    def type(self) -> int:
        return 22

    def serialize(self) -> bytearray:
        request = bytearray()
        for path in self.paths:
            request += _HEADER.pack(_GET_DATA, False, -1) + write_string(path) + b"\0"
        return request + _END

    def deserialize(self, data: bytes, offset: int) -> list[tuple[bytes | None, ZnodeStat] | int]:
        """Per path what was read, or the number of the error."""
        results: list[tuple[bytes | None, Any] | int] = []
        while True:
            kind, is_done, _ = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size
            if is_done:
                return results
            if kind == _ERROR:
                results.append(_INT.unpack_from(data, offset)[0])
                offset += _INT.size
            else:
                content, offset = read_buffer(data, offset)
                results.append((content, ZnodeStat._make(_STAT.unpack_from(data, offset))))
                offset += _STAT.size
