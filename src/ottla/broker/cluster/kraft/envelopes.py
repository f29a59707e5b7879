"""Requests of clients that only the controllers decide, passed on to the active one in an Envelope (KIP-590).

    data        the request with a header, in the version that the client spoke
    principal   int16 version 0, then DefaultPrincipalData: kind, name, whether he came with a delegation token
    address     the client's, as bytes

The controller asks its own rules about that principal and counts its quotas, and answers what the client gets. Whatever
it could not do is said by the envelope's own error code: NOT_CONTROLLER is asked again elsewhere, UNSUPPORTED_VERSION
is the client's, who asked what versions there are before another controller became active, and everything else is a
fault between us and the controllers, and none of the client's.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    MalformedMessage,
    NotController,
    PrincipalDeserializationFailure,
    UnknownServerError,
    UnsupportedVersion,
    broker_error,
)
from ottla.protocol import first_uses
from ottla.protocol.api import api_of
from ottla.protocol.default_principal import DefaultPrincipalData
from ottla.protocol.header import RequestHeader, decode_response, encode_request
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.schema import Message

PRINCIPAL_VERSION: Final = (0).to_bytes(2)
CORRELATION_ID: Final = 0
NO_ADDRESS: Final = b"\0\0\0\0"
CHECKED_BY_BROKER: Final = "SASL_SSL"
"""How a client came is known to the broker only, which has refused what may not come that way (tokens)."""


def wrapped(request: Message, context: RequestContext) -> EnvelopeRequest:
    """The request in an envelope, of whoever sent it."""
    parts = encode_request(
        request, version=context.api_version, correlation_id=CORRELATION_ID, client_id=context.client_id
    )
    kind, _, name = context.principal.partition(":")
    principal = DefaultPrincipalData(type=kind, name=name, token_authenticated=context.by_token)
    return EnvelopeRequest(
        request_data=b"".join(map(bytes, parts)),
        request_principal=PRINCIPAL_VERSION + b"".join(map(bytes, first_uses.encode(principal, 0))),
        client_host_address=_packed(context.client_host),
    )


def unwrapped(request: Message, version: int, response: EnvelopeResponse) -> Message:
    """The controller's answer; NotController when another one must be asked."""
    if response.error_code == NotController.code:
        raise NotController("the controller that was asked is not the active one")
    if response.error_code == UnsupportedVersion.code:
        raise UnsupportedVersion(f"the active controller does not know {api_of(request)} in version {version}")
    if response.error_code or response.response_data is None:
        raise UnknownServerError(
            f"the controller could not take a request that was passed on to it: {broker_error(response.error_code)}"
        )
    return decode_response(api_of(request), version, bytes(response.response_data))[1]


def opened(envelope: EnvelopeRequest, header: RequestHeader, broker: RequestContext, api_name: str) -> RequestContext:
    """Who has sent what is in an envelope; `broker` is who passed it on."""
    principal = _principal(bytes(envelope.request_principal or b""))
    return RequestContext(
        api_version=header.request_api_version,
        client_id=header.client_id or "",
        client_host=_host(bytes(envelope.client_host_address)),
        principal=f"{principal.type}:{principal.name}",
        listener=broker.listener,
        security_protocol=CHECKED_BY_BROKER,
        by_token=principal.token_authenticated,
        api_name=api_name,
    )


def _principal(content: bytes) -> DefaultPrincipalData:
    if content[:2] != PRINCIPAL_VERSION:
        raise PrincipalDeserializationFailure("the principal of an envelope is written in a version not known here")
    try:
        return first_uses.decode(DefaultPrincipalData, 0, content[2:])
    except MalformedMessage as error:
        raise PrincipalDeserializationFailure(str(error)) from None


def _host(packed: bytes) -> str:
    try:
        return str(ip_address(packed))
    except ValueError:
        raise PrincipalDeserializationFailure("the address of an envelope is none") from None


def _packed(host: str) -> bytes:
    try:
        return ip_address(host.partition("%")[0].strip("[]")).packed
    except ValueError:
        return NO_ADDRESS
