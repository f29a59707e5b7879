"""What goes wrong on the wire, as HTTP says it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from ottla.broker.http.parts import HttpError
from ottla.broker.security.needs import REFUSALS
from ottla.errors import BrokerError, MalformedMessage, OttlaError

REFUSED: Final = tuple(set(REFUSALS.values()))
NOT_THERE: Final = frozenset(
    {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "GROUP_ID_NOT_FOUND",
        "TRANSACTIONAL_ID_NOT_FOUND",
        "RESOURCE_NOT_FOUND",
        "OFFSET_OUT_OF_RANGE",
    }
)
IN_THE_WAY: Final = frozenset({"TOPIC_ALREADY_EXISTS", "NON_EMPTY_GROUP", "DUPLICATE_RESOURCE"})


def http_error(error: OttlaError) -> HttpError:
    """The answer to a caller for whom this was raised."""
    if isinstance(error, REFUSED):
        return HttpError(HTTPStatus.FORBIDDEN, str(error), name=_name(error))
    if isinstance(error, MalformedMessage):
        return HttpError(HTTPStatus.BAD_REQUEST, str(error))
    name = _name(error)
    if name in NOT_THERE:
        return HttpError(HTTPStatus.NOT_FOUND, str(error), name=name)
    if name in IN_THE_WAY:
        return HttpError(HTTPStatus.CONFLICT, str(error), name=name)
    status = HTTPStatus.SERVICE_UNAVAILABLE if error.retriable else HTTPStatus.BAD_REQUEST
    return HttpError(status, str(error), name=name)


def _name(error: OttlaError) -> str:
    return error.name if isinstance(error, BrokerError) else type(error).__name__
