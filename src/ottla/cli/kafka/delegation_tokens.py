"""kafka-delegation-tokens: make, renew, expire and list delegation tokens.

A token's HMAC is a password. It is printed when a token is made and when tokens are listed, as by Apache's tool:
that is what the command is for.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import admin_of
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_dates import java_date
from ottla.cli.kafka.java_errors import described, first_failure
from ottla.cli.kafka.parser import BOOTSTRAP, COMMAND_CONFIG, OPTIONAL, Option, Options, flag, parse, perhaps
from ottla.cli.output import OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.credentials import DelegationToken, Principal

SUMMARY: Final = "This tool helps to create, renew, expire, or describe delegation tokens."
DATE: Final = "yyyy-MM-dd'T'HH:mm"
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    flag("create", "make a token"),
    flag("renew", "let a token live longer"),
    flag("expire", "let a token end"),
    flag("describe", "list tokens"),
    perhaps("owner-principal", "whose token: User:alice"),
    perhaps("renewer-principal", "who may renew it: User:alice; may be repeated"),
    Option("max-life-time-period", "milliseconds it may live at most; -1: what the broker allows", OPTIONAL, int),
    Option("renew-time-period", "milliseconds it lives from now; -1: what the broker sets", OPTIONAL, int),
    Option("expiry-time-period", "milliseconds until it ends; -1: now", OPTIONAL, int),
    perhaps("hmac", "the HMAC of the token"),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-delegation-tokens", SUMMARY, OPTIONS, words)
    _check(options)
    action = next(each for each in _RUNS if options.has(each))
    try:
        with admin_of(options) as admin:
            _RUNS[action](admin, options)
    except (OttlaError, TimeoutError) as error:
        fail(described(first_failure(error)))
    except ValueError as error:
        fail(str(error))
    return OK


def _check(options: Options) -> None:
    if sum(map(options.has, ("create", "renew", "expire", "describe"))) != 1:
        options.wrong("Command must include exactly one action: --create, --renew, --expire or --describe")
    options.require("bootstrap-server", "command-config")
    if options.has("create"):
        options.require("max-life-time-period")
    if options.has("renew"):
        options.require("hmac", "renew-time-period")
    if options.has("expire"):
        options.require("hmac", "expiry-time-period")
    for action, others in (
        ("create", ("hmac", "renew-time-period", "expiry-time-period")),
        ("renew", ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal")),
        ("expire", ("max-life-time-period", "renew-time-period", "owner-principal")),
        ("describe", ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period")),
    ):
        options.exclude(action, others)


def _principals(options: Options, name: str) -> list[Principal]:
    from ottla.client.admin.credentials import Principal

    found = []
    for word in options.values(name):
        kind, colon, who = word.strip().partition(":")
        if not (kind and colon):
            raise ValueError(f"expected a string in format principalType:principalName but got {word.strip()}")
        found.append(Principal(kind, who))
    return found


def _hmac(options: Options) -> bytes:
    try:
        return base64.b64decode(options.text("hmac"), validate=True)
    except binascii.Error:
        raise ValueError("Illegal base64 in the HMAC") from None


def _period(options: Options, name: str) -> int:
    found = options.number(name)
    if found is None:
        raise ValueError(f"Option {name} requires an argument")
    return found


def _create(admin: Admin, options: Options) -> None:
    renewers = _principals(options, "renewer-principal")
    lifetime_ms = _period(options, "max-life-time-period")
    owners = _principals(options, "owner-principal")
    print(f"Calling create token operation with renewers :{_shown(renewers)} , max-life-time-period :{lifetime_ms}")
    token = admin.create_delegation_token(
        renewers=renewers, owner=owners[0] if owners else None, max_lifetime_ms=lifetime_ms
    )
    print(f"Created delegation token with tokenId : {token.token_id}")
    _print([token])


def _shown(principals: Sequence[Principal]) -> str:
    return f"[{', '.join(map(str, principals))}]"


def _renew(admin: Admin, options: Options) -> None:
    period_ms = _period(options, "renew-time-period")
    hmac = _hmac(options)
    print(f"Calling renew token operation with hmac :{options.text('hmac')} , renew-time-period :{period_ms}")
    expiry_ms = admin.renew_delegation_token(hmac, period_ms=period_ms)
    print(f"Completed renew operation. New expiry date : {java_date(DATE, expiry_ms)}", end="")


def _expire(admin: Admin, options: Options) -> None:
    period_ms = _period(options, "expiry-time-period")
    hmac = _hmac(options)
    print(f"Calling expire token operation with hmac :{options.text('hmac')} , expire-time-period :{period_ms}")
    expiry_ms = admin.expire_delegation_token(hmac, period_ms=period_ms)
    print(f"Completed expire operation. New expiry date : {java_date(DATE, expiry_ms)}", end="")


def _describe(admin: Admin, options: Options) -> None:
    owners = _principals(options, "owner-principal")
    if owners:
        print(f"Calling describe token operation for owners: {_shown(owners)}")
    else:
        print("Calling describe token operation for current user.")
    tokens = admin.describe_delegation_tokens(owners or None)
    print(f"Total number of tokens : {len(tokens)}", end="")
    _print(tokens)


def _print(tokens: Sequence[DelegationToken]) -> None:
    rows = [("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")]
    rows += [
        (
            each.token_id,
            base64.b64encode(each.hmac).decode(),
            str(each.owner),
            str(each.requester),
            _shown(each.renewers),
            java_date(DATE, each.issue_timestamp_ms),
            java_date(DATE, each.expiry_timestamp_ms),
            java_date(DATE, each.max_timestamp_ms),
        )
        for each in tokens
    ]
    widths = (15, 30, 15, 15, 25, 15, 15, 15)
    for row in rows:
        print("\n" + " ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))


_RUNS: Final = {"create": _create, "renew": _renew, "expire": _expire, "describe": _describe}
