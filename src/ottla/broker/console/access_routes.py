"""Who may what, over HTTP: users, access rules, quotas, delegation tokens.

1. Everything is asked and changed by the handlers of the wire, as who calls. A token's secret is never shown here, and
   a password is hashed in a thread and forgotten.
2. A part that is off (no authorizer, no secret for tokens) is said in words beside what there is.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from ottla.broker.http.call import Call
from ottla.broker.http.parts import KNOWN, HttpError, Json, Reply, Route, reply
from ottla.errors import BrokerError, raise_for_code
from ottla.light_dataclasses import replace
from ottla.protocol.access import AclOperation, AclPermission, AclResource, PatternType
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
STRONGEST: Final = 2
ITERATIONS: Final = 16_384
PASSWORD_LIMIT: Final = 1_000
TEXT_LIMIT: Final = 32_767
"""Of a text in Kafka's protocol: what is longer could be kept and never be described or removed by a client."""


async def read_access(call: Call) -> Reply:
    """Each of the four, or why not."""
    value: dict[str, Json] = {"has_rules": call.broker.access.is_on}
    for name, read in _KINDS.items():
        try:
            value[name] = await read(call)
        except BrokerError as error:
            value[name] = None
            value[f"{name}_error"] = str(error)
    return reply(value)


async def _users(call: Call) -> list[Json]:
    answer = await call.ask(DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsResponse)
    raise_for_code(answer.error_code, answer.error_message)
    return [
        {
            "name": each.user,
            "credentials": [
                {"mechanism": MECHANISMS.get(one.mechanism, "unknown"), "iterations": one.iterations}
                for one in each.credential_infos
            ],
        }
        for each in answer.results
    ]


async def _rules(call: Call) -> list[Json]:
    request = DescribeAclsRequest(
        resource_type_filter=AclResource.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    answer = await call.ask(request, DescribeAclsResponse)
    raise_for_code(answer.error_code, answer.error_message)
    return [
        {
            "resource": AclResource(resource.resource_type).name,
            "name": resource.resource_name,
            "pattern": PatternType(resource.pattern_type).name,
            "principal": rule.principal,
            "host": rule.host,
            "operation": AclOperation(rule.operation).name,
            "permission": AclPermission(rule.permission_type).name,
        }
        for resource in answer.resources
        for rule in resource.acls
    ]


async def _quotas(call: Call) -> list[Json]:
    answer = await call.ask(DescribeClientQuotasRequest(components=[], strict=False), DescribeClientQuotasResponse)
    raise_for_code(answer.error_code, answer.error_message)
    return [
        {
            "entity": {each.entity_type: each.entity_name for each in entry.entity},
            "limits": {each.key: each.value for each in entry.values},
        }
        for entry in answer.entries or ()
    ]


async def _tokens(call: Call) -> list[Json]:
    """As over a connection that is locked: who asks has logged in, and no secret of a token is shown."""
    safe = replace(call, context=replace(call.context, security_protocol="SASL_SSL"))
    answer = await safe.ask(DescribeDelegationTokenRequest(owners=None), DescribeDelegationTokenResponse)
    raise_for_code(answer.error_code)
    return [
        {
            "id": each.token_id,
            "owner": f"{each.principal_type}:{each.principal_name}",
            "requester": f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
            "issued_ms": each.issue_timestamp,
            "expires_ms": each.expiry_timestamp,
            "ends_ms": each.max_timestamp,
            "renewers": [f"{one.principal_type}:{one.principal_name}" for one in each.renewers],
        }
        for each in answer.tokens
    ]


_KINDS: Final[Mapping[str, Callable[[Call], Awaitable[list[Json]]]]] = {
    "users": _users,
    "rules": _rules,
    "quotas": _quotas,
    "tokens": _tokens,
}


# -- users ------------------------------------------------------------------------------------------------------------


async def put_user(call: Call) -> Reply:
    """Make a user, or give one another password."""
    from ottla.net.sasl.scram import HASHES

    sent = call.json()
    name, password = sent.get("name"), sent.get("password")
    if not (isinstance(name, str) and isinstance(password, str) and name and password):
        raise HttpError(HTTPStatus.BAD_REQUEST, "name and password are needed")
    if len(name.encode("utf-8", "replace")) > TEXT_LIMIT:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"a name has at most {TEXT_LIMIT} bytes")
    if len(password) > PASSWORD_LIMIT:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"a password has at most {PASSWORD_LIMIT} characters")
    salt = os.urandom(16)
    algorithm = HASHES[MECHANISMS[STRONGEST]]
    salted = await asyncio.to_thread(hashlib.pbkdf2_hmac, algorithm, password.encode(), salt, ITERATIONS)
    made = ScramCredentialUpsertion(
        name=name, mechanism=STRONGEST, iterations=ITERATIONS, salt=salt, salted_password=salted
    )
    await _alter_user(call, AlterUserScramCredentialsRequest(deletions=[], upsertions=[made]))
    return reply({"name": name}, HTTPStatus.CREATED)


async def delete_user(call: Call) -> Reply:
    name = call.path["user"]
    known = await _users(call)
    found = [each for each in known if isinstance(each, Mapping) and each["name"] == name]
    mechanisms = [number for number, text in MECHANISMS.items() if text in str(found)]
    deletions = [ScramCredentialDeletion(name=name, mechanism=each) for each in mechanisms or [STRONGEST]]
    await _alter_user(call, AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[]))
    return reply({"deleted": name})


async def _alter_user(call: Call, request: AlterUserScramCredentialsRequest) -> None:
    answer = await call.ask(request, AlterUserScramCredentialsResponse)
    for each in answer.results:
        raise_for_code(each.error_code, each.error_message)


# -- rules ------------------------------------------------------------------------------------------------------------


def _rule(sent: Mapping[str, Json]) -> AclCreation:
    """The rule by Kafka's numbers; for what removes it, too."""
    for field in ("name", "principal", "host"):
        if len(str(sent.get(field, "")).encode("utf-8", "replace")) > TEXT_LIMIT:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{field} has at most {TEXT_LIMIT} bytes")
    try:
        return AclCreation(
            resource_type=AclResource[str(sent["resource"])].value,
            resource_name=str(sent["name"]),
            resource_pattern_type=PatternType[str(sent.get("pattern", "LITERAL"))].value,
            principal=str(sent["principal"]),
            host=str(sent.get("host", "*")),
            operation=AclOperation[str(sent["operation"])].value,
            permission_type=AclPermission[str(sent.get("permission", "ALLOW"))].value,
        )
    except KeyError as missing:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{missing.args[0]!r} is missing, or nothing of that name") from None


def _exactly(rule: AclCreation) -> DeleteAclsFilter:
    """The filter that this one rule matches."""
    return DeleteAclsFilter(
        resource_type_filter=rule.resource_type,
        resource_name_filter=rule.resource_name,
        pattern_type_filter=rule.resource_pattern_type,
        principal_filter=rule.principal,
        host_filter=rule.host,
        operation=rule.operation,
        permission_type=rule.permission_type,
    )


async def add_rule(call: Call) -> Reply:
    request = CreateAclsRequest(creations=[_rule(call.json())])
    (result,) = (await call.ask(request, CreateAclsResponse)).results
    raise_for_code(result.error_code, result.error_message)
    return reply({"added": 1}, HTTPStatus.CREATED)


async def remove_rule(call: Call) -> Reply:
    request = DeleteAclsRequest(filters=[_exactly(_rule(call.json()))])
    (result,) = (await call.ask(request, DeleteAclsResponse)).filter_results
    raise_for_code(result.error_code, result.error_message)
    return reply({"removed": len(result.matching_acls)})


# -- quotas -----------------------------------------------------------------------------------------------------------


async def set_quota(call: Call) -> Reply:
    """A limit for whoever the entity is; null takes it away."""
    sent = call.json()
    entity, key, limit = sent.get("entity"), sent.get("key"), sent.get("limit")
    if not (isinstance(entity, Mapping) and isinstance(key, str) and isinstance(limit, int | float | None)):
        raise HttpError(HTTPStatus.BAD_REQUEST, "send entity, key and limit")
    names = [
        EntityData(entity_type=kind, entity_name=None if name is None else str(name)) for kind, name in entity.items()
    ]
    change = OpData(key=key, value=0.0 if limit is None else float(limit), remove=limit is None)
    request = AlterClientQuotasRequest(entries=[EntryData(entity=names, ops=[change])], validate_only=False)
    answer = await call.ask(request, AlterClientQuotasResponse)
    raise_for_code(answer.entries[0].error_code, answer.entries[0].error_message)
    return reply({"key": key, "limit": limit})


RULE: Final = {
    "resource": ", ".join(each.name for each in AclResource if each > AclResource.ANY),
    "name": "of the resource; * is all of them",
    "pattern": "LITERAL or PREFIXED",
    "principal": "like User:alice",
    "host": "an address; * is every one",
    "operation": ", ".join(each.name for each in AclOperation if each > AclOperation.ANY),
    "permission": "ALLOW or DENY",
}
USER: Final = {"name": "of the user", "password": "the new one"}
QUOTA: Final = {
    "entity": "an object with user, client-id or ip; null is the default",
    "key": "producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate or "
    "connection_creation_rate",
    "limit": "a number; null takes it away",
}
ROUTES: Final = (
    Route("GET", "/api/access", read_access, KNOWN, "Users, rules, quotas and tokens that who asks may see."),
    Route("POST", "/api/users", put_user, KNOWN, "Make a user, or change a password.", body=USER),
    Route("DELETE", "/api/users/{user:path}", delete_user, KNOWN, "Delete a user."),
    Route("POST", "/api/rules", add_rule, KNOWN, "Add an access rule.", body=RULE),
    Route("POST", "/api/rules/remove", remove_rule, KNOWN, "Remove an access rule.", body=RULE),
    Route("POST", "/api/quotas", set_quota, KNOWN, "Set or take away a limit.", body=QUOTA),
)
