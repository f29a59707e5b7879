"""What a plan gives: changes to commit, and answers to send when they are durable.

1. A plan has no effect by itself. When its changes cannot be committed, none of its answers is true.
2. A problem of one item (a topic, a resource, an entity) is the answer to that item and does not touch the others.
3. The answers are the structs of the response, one per item of the request, ready to be sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Generic, TypedDict, TypeVar

from ottla.cluster.changes import Change
from ottla.errors import NONE, BrokerError
from ottla.light_tuples import NamedTuple

Answer = TypeVar("Answer")
K = TypeVar("K", bound=Hashable)


class Plan(NamedTuple, Generic[Answer]):
    """See above."""

    changes: tuple[Change, ...]
    answers: list[Answer]

    def only_checked(self) -> Plan[Answer]:
        """The same answers, and nothing to commit: what validate_only asks for."""
        return Plan((), self.answers)


class ErrorFields(TypedDict):
    """The two fields that nearly every answer has."""

    error_code: int
    error_message: str | None


FINE: ErrorFields = {"error_code": NONE, "error_message": None}


def refusal(error: BrokerError) -> ErrorFields:
    """How an error stands in an answer."""
    return {"error_code": error.code, "error_message": str(error)}


def repeated(items: Iterable[K]) -> set[K]:
    """Those that come more than once."""
    return {item for item, times in Counter(items).items() if times > 1}
