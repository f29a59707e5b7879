"""A request to the registry on its way to the broker that leads _schemas, in an Envelope between brokers.

1. The envelope has the name of the operation, the parts of the path, the query and the body; its answer is the value,
   or Confluent's code with its sentence. What who asks may do was decided by the broker that he asked.
2. It is passed on once: a leader that is not leader any more says so, and the first broker looks for the next.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from ottla.broker.registry.errors import RegistryError, forwarding_failed, malformed
from ottla.broker.registry.log import PARTITION
from ottla.broker.registry.operations import BY_NAME, Operation
from ottla.broker.registry.requests import Json, Request
from ottla.errors import BrokerError, BrokerNotAvailable, NotConnected, NotLeaderOrFollower, OttlaError, broker_error
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def ask_leader(broker: Broker, operation: Operation, request: Request) -> Json:
    """The leader's answer; raises NotLeaderOrFollower when it is not the leader, or cannot be reached."""
    envelope = EnvelopeRequest(
        request_data=_packed(operation, request), request_principal=None, client_host_address=b""
    )
    try:
        answer = await broker.link.ask_leader(*PARTITION, envelope)
    except (BrokerNotAvailable, NotConnected) as error:  # nobody has been asked
        raise NotLeaderOrFollower(str(error)) from None
    except OttlaError as error:
        if error.retriable and not operation.changes:
            raise NotLeaderOrFollower(str(error)) from None
        raise forwarding_failed(str(error)) from None
    assert isinstance(answer, EnvelopeResponse), "an envelope is answered by one"
    if answer.error_code:
        raise broker_error(answer.error_code, str(PARTITION))
    return _unpacked(bytes(answer.response_data or b""))


def _packed(operation: Operation, request: Request) -> bytes:
    value = {
        "operation": operation.name,
        "path": dict(request.path),
        "query": dict(request.query),
        "repeated": {name: list(values) for name, values in request.repeated.items()},
        "body": base64.b64encode(request.body).decode(),
    }
    return json.dumps(value).encode()


def _unpacked(content: bytes) -> Json:
    found = json.loads(content)
    if "code" in found:
        raise RegistryError(int(found["code"]), str(found["message"]))
    value: Json = found["value"]
    return value


async def answer_envelope(broker: Broker, content: bytes) -> EnvelopeResponse:
    """What the leader answers to an envelope."""
    try:
        operation, request = _read(content)
        value: dict[str, Json] = {"value": await broker.schema_registry.answer_here(operation, request)}
    except RegistryError as error:
        value = {"code": error.code, "message": error.message}
    except BrokerError as error:
        return EnvelopeResponse(response_data=None, error_code=error.code)
    return EnvelopeResponse(response_data=json.dumps(value).encode(), error_code=0)


def _read(content: bytes) -> tuple[Operation, Request]:
    try:
        found = json.loads(content)
        operation, path, query = BY_NAME[found["operation"]], dict(found["path"]), dict(found["query"])
        return operation, Request(path, query, base64.b64decode(found["body"]), dict(found.get("repeated") or {}))
    except (ValueError, KeyError, TypeError):
        raise malformed("this is no request for the registry") from None
