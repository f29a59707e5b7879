"""What subjects are called in access rules, and who may do what with them.

1. The subject `orders-value` is the topic `_schemas:orders-value` in access rules: no topic can have that name, every
   tool can write such a rule, and a prefixed one speaks of many subjects (`_schemas:` of all of them, and of what
   belongs to none). A slash in a subject is written %2F, as ZooKeeper keeps names as paths.
2. Operations are the wire's: READ is Confluent's SUBJECT_READ and SUBJECT_COMPATIBILITY_READ, WRITE SUBJECT_WRITE,
   DELETE SUBJECT_DELETE, ALTER_CONFIGS SUBJECT_COMPATIBILITY_WRITE; on `_schemas:` they are its GLOBAL_ ones.
3. A schema with an id may be read by who may read a subject that has it. Lists have what their reader may read.
4. An alias stands for another subject, so whoever sets one needs the right on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.http.parts import Json
from ottla.broker.registry.errors import RegistryError
from ottla.broker.registry.operations import BY_NAME, Operation
from ottla.broker.registry.requests import Request, plain_subject
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.topic_names import SCHEMAS
from ottla.protocol.access import AclOperation, AclResource

if TYPE_CHECKING:
    from ottla.broker.http.call import Call

ALL_SUBJECTS: Final = f"{SCHEMAS}:"
READ_LISTED: Final = Need(AclOperation.READ, AclResource.TOPIC, Refused.LEFT_OUT)
LISTS: Final = ("/subjects", "/schemas", "/schemas/ids/{id}/subjects", "/schemas/ids/{id}/versions")
OPEN: Final = ("/schemas/types", "/contexts")


def resource_of(subject: str) -> str:
    """What a subject is called in access rules."""
    return ALL_SUBJECTS + subject.replace("%", "%25").replace("/", "%2F")


async def authorize(call: Call, operation: Operation, request: Request) -> None:
    """Raise what the wire would answer where the caller may not."""
    if not call.broker.access.is_on or operation.path in OPEN:
        return
    need = Need(operation.needs, AclResource.TOPIC)
    if "subject" in call.path:
        call.check(need, resource_of(request.subject))
        if operation.method == "PUT" and (alias := _alias(request)) is not None:
            call.check(need, resource_of(alias))
    elif "id" in call.path:
        if not call.may(READ_LISTED, ALL_SUBJECTS) and not await _subjects_of_id(call, request):
            raise need.refusal(call.context)
    elif operation.path not in LISTS:
        call.check(need, ALL_SUBJECTS)


def visible(call: Call, operation: Operation, value: Json) -> Json:
    """Of a list what the caller may read."""
    if not call.broker.access.is_on or operation.path not in LISTS or call.may(READ_LISTED, ALL_SUBJECTS):
        return value
    assert isinstance(value, list), "these operations list something"
    return [each for each in value if call.may(READ_LISTED, resource_of(_subject(each)))]


def _subject(listed: Json) -> str:
    return str(listed["subject"] if isinstance(listed, dict) else listed)


async def _subjects_of_id(call: Call, request: Request) -> Sequence[str]:
    """Those that the caller may read; none for an id that nobody has, so that it looks like one he may not see."""
    operation = BY_NAME["GET /schemas/ids/{id}/subjects"]
    try:
        found = await call.broker.schema_registry.answer(operation, Request({"id": request.path["id"]}))
    except RegistryError:
        return []
    assert isinstance(found, list), "subjects are listed"
    return [str(each) for each in found if call.may(READ_LISTED, resource_of(str(each)))]


def _alias(request: Request) -> str | None:
    alias = request.object().get("alias") if request.body else None
    return plain_subject(alias) if isinstance(alias, str) and alias else None
