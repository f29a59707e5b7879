"""Envelope, on a controller: a broker passes on what a client asked it (KIP-590; broker/cluster/kraft/envelopes.py).

1. Only what Kafka's brokers pass on is taken out of an envelope, and nothing of who asked is believed of anybody who
   may not CLUSTER_ACTION.
2. Rights and quotas are those of the client that is named.
3. What this controller may not decide, because it is not the active one, is said of the envelope: the broker asks
   elsewhere, and the client hears nothing of it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from ottla.broker.cluster.forwarding import is_from_no_controller
from ottla.broker.cluster.kraft.envelopes import opened
from ottla.broker.cluster.kraft.passing_on import PASSED_ON
from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.dispatch import codec_of, error_response
from ottla.broker.requests.running import awaited
from ottla.broker.requests.served import APART_FRAME_BYTES, LIST_FRAME_BYTES, Served, handler_of, served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.errors import NONE, BrokerError, InvalidRequest, NotController, UnsupportedVersion
from ottla.protocol.api import APIS, Api
from ottla.protocol.header import decode_request_header, encode_response
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(EnvelopeRequest, needs=(CLUSTER_ACTION,), frame_bytes=LIST_FRAME_BYTES)


async def handle(broker: Broker, request: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse:
    try:
        CLUSTER_ACTION.check(broker, context)
        if not controller_link(broker).controller.is_active:
            raise NotController("this is not the active controller")
        return EnvelopeResponse(response_data=await _answer(broker, request, context), error_code=NONE)
    except BrokerError as error:
        return EnvelopeResponse(response_data=None, error_code=error.code)


async def _answer(broker: Broker, envelope: EnvelopeRequest, context: RequestContext) -> bytes:
    frame = memoryview(bytes(envelope.request_data))
    header, position = decode_request_header(frame)
    api, version = APIS.get(header.request_api_key), header.request_api_version
    if api is None or api.key not in PASSED_ON:
        raise InvalidRequest(f"API key {header.request_api_key} is not passed on to controllers")
    if version not in api.versions:
        raise UnsupportedVersion(f"{api} version {version} is not known here")
    who = opened(envelope, header, context, api.name)
    who = _charged(broker, api, who)
    decode = partial(codec_of(api, version)[0], frame, position)
    if len(frame) > APART_FRAME_BYTES:
        asked, _ = await broker.pacing.apart(decode)
    else:
        asked, _ = decode()
    answer = await _handled(broker, api, asked, who)
    if is_from_no_controller(answer):
        raise NotController("this is not the active controller any more")
    return b"".join(map(bytes, encode_response(answer, version=version, correlation_id=header.correlation_id)))


def _charged(broker: Broker, api: Api, who: RequestContext) -> RequestContext:
    from ottla.light_dataclasses import replace

    declared = served(api, is_controller=True)
    charges = broker.quotas.charges_of(declared.quota.value, who.principal.partition(":")[2], who.client_id)
    return who if charges is None else replace(who, charges=charges)


async def _handled(broker: Broker, api: Api, asked: Message, who: RequestContext) -> Message:
    try:
        return cast(Message, await awaited(handler_of(api, is_controller=True).handle(broker, asked, who)))
    except NotController:
        raise
    except BrokerError as error:
        return error_response(api, error, who.api_version)
