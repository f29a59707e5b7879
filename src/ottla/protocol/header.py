"""Request and response headers, and which API uses which.

    request header 0   api key, api version, correlation id                 only ControlledShutdown version 0
    request header 1   … client id                                          versions that are not flexible
    request header 2   … client id, tags                                    flexible versions
    response header 0  correlation id
    response header 1  correlation id, tags                                 flexible versions

Two things never changed with the versions: the client id keeps its old int16 length in header 2, and ApiVersions always
answers with response header 0, because a client that asks does not know yet what the broker can read.

A frame here is the bytes after the int32 size; framing is the business of ottla.net. Bytes that follow the body are
passed over, as Kafka does: librdkafka 2.16 leaves three of them behind a MetadataRequest 13 (librdkafka #5049).

A header is read before anything is known about its sender, so the work for it is bounded: HEADER_LIMIT_BYTES and
HEADER_TAGS_LIMIT, whatever the size of the frame. The longest client id (an int16) fits; no tag is defined for any
header yet, and those of the future get some room.
"""

import struct
from functools import lru_cache
from typing import Final, TypeVar

from ottla.errors import MalformedMessage, UnsupportedVersion
from ottla.protocol import first_uses
from ottla.protocol.api import APIS, Api, WrittenRequest, api_of
from ottla.protocol.schema import Buffer, Int16, Int32, Message, String, since

API_VERSIONS_KEY = 18
CONTROLLED_SHUTDOWN_KEY = 7
HEADER_LIMIT_BYTES: Final = 40_960
HEADER_TAGS_LIMIT: Final = 64

Header = TypeVar("Header", bound=Message)

_CORRELATION_ID = struct.Struct(">i")
_KEY_AND_VERSION = struct.Struct(">hh")


class RequestHeader(Message, versions="0-2", flexible=2):
    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: String | None = since(1, default=None, ignorable=True, compact=False)


class ResponseHeader(Message, versions="0-1", flexible=1):
    correlation_id: Int32


def request_header_version(key: int, version: int) -> int:
    if key == CONTROLLED_SHUTDOWN_KEY and version == 0:
        return 0
    return 2 if version >= APIS[key].flexible_since else 1


def response_header_version(key: int, version: int) -> int:
    return 1 if version >= APIS[key].flexible_since and key != API_VERSIONS_KEY else 0


# -- the client's side -----------------------------------------------------------------------------------------------


def encode_request(
    request: Message | WrittenRequest, *, version: int, correlation_id: int, client_id: str | None
) -> list[Buffer]:
    key = api_of(request).key
    before, after = around_correlation_id(key, version, client_id)
    body = request.body if isinstance(request, WrittenRequest) else first_uses.encode(request, version)
    return _joined([before, _CORRELATION_ID.pack(correlation_id), after], body)


@lru_cache(maxsize=256)
def around_correlation_id(key: int, version: int, client_id: str | None) -> tuple[bytes, bytes]:
    """What a request's header has before and behind its correlation id: the same for every request of a client."""
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=0, client_id=client_id)
    whole = b"".join(first_uses.encode(header, request_header_version(key, version)))
    end = _KEY_AND_VERSION.size
    return whole[:end], whole[end + _CORRELATION_ID.size :]


def decode_response(api: Api, version: int, frame: Buffer) -> tuple[int, Message]:
    """Correlation id and answer of a frame that answers a request of this API and version."""
    header, position = _decode_header(ResponseHeader, response_header_version(api.key, version), frame)
    return header.correlation_id, first_uses.decode_prefix(api.response, version, frame, position)[0]


def read_correlation_id(frame: Buffer) -> int:
    """The correlation id of an answer; it stands first in both headers."""
    if len(frame) < _CORRELATION_ID.size:
        raise MalformedMessage(f"an answer of {len(frame)} bytes has no room for a correlation id")
    found: int = _CORRELATION_ID.unpack_from(frame)[0]
    return found


# -- the broker's side -----------------------------------------------------------------------------------------------


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Header and the position of the body. Raises UnsupportedVersion when we do not speak that API or version."""
    key, version = read_key_and_version(frame)
    api = APIS.get(key)
    if api is None:
        raise UnsupportedVersion(f"API key {key} is not known here")
    if version not in api.versions and key != API_VERSIONS_KEY:
        raise UnsupportedVersion(f"{api} is spoken here in versions {api.versions}, not {version}")
    return _decode_header(RequestHeader, request_header_version(key, version), frame)


def read_key_and_version(frame: Buffer) -> tuple[int, int]:
    if len(frame) < _KEY_AND_VERSION.size:
        raise MalformedMessage(f"a request of {len(frame)} bytes has no room for its header")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    return key, version


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    header, position = decode_request_header(frame)
    api, version = APIS[header.request_api_key], header.request_api_version
    if version not in api.versions:
        raise UnsupportedVersion(f"{api} is spoken here in versions {api.versions}, not {version}")
    return header, first_uses.decode_prefix(api.request, version, frame, position)[0]


def encode_response(response: Message, *, version: int, correlation_id: int) -> list[Buffer]:
    header = ResponseHeader(correlation_id=correlation_id)
    header_version = response_header_version(api_of(response).key, version)
    return _joined(first_uses.encode(header, header_version), first_uses.encode(response, version))


def _joined(header: list[Buffer], body: list[Buffer]) -> list[Buffer]:
    """Header and the first piece of the body as one buffer: both are small, records come later."""
    return [b"".join((*header, body[0])), *body[1:]]


def _decode_header(header_class: type[Header], version: int, frame: Buffer) -> tuple[Header, int]:
    """The header and where it ends. Neither a frame of megabytes nor a count of millions makes this take long."""
    within = frame if len(frame) <= HEADER_LIMIT_BYTES else memoryview(frame)[:HEADER_LIMIT_BYTES]
    try:
        return first_uses.decode_prefix(header_class, version, within, entries_limit=HEADER_TAGS_LIMIT)
    except MalformedMessage as error:
        limits = f"{HEADER_LIMIT_BYTES} bytes and {HEADER_TAGS_LIMIT} tagged fields are allowed"
        raise MalformedMessage(f"the header cannot be read ({limits}): {error}") from None
