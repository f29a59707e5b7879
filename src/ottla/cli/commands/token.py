"""`ottla token`: delegation tokens, which log in like a password and end by themselves.

1. A token is named by its id everywhere; its secret (the HMAC) is printed once, by `create`, or goes only into the file
   of --client-config. `renew` and `expire` ask the broker for it: it is never on the command line.
2. A token is made by whoever has logged in, but not by a login with a token; another owner needs the right
   CreateTokens on that user.
"""

from __future__ import annotations

import argparse
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.client_files import client_settings, properties_text, scram_login, write_secret
from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, ensure, output_of, settings_of
from ottla.cli.moments import duration_ms
from ottla.cli.output import OK, Failure
from ottla.cli.show import shown_time

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.credentials import DelegationToken, Principal

EXAMPLES: Final = """\
examples:
  ottla token create --max-life 7d                          prints id and secret, this once
  ottla token create --client-config job.properties         a settings file with the token, for a job
  ottla token create --renewer scheduler --owner alice
  ottla token list
  ottla token renew TOKEN_ID --for 24h
  ottla token expire TOKEN_ID                               at once
"""
HEADINGS: Final = ("TOKEN ID", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "AT THE LATEST")
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def add_verbs(verbs: Verbs) -> None:
    create = add_verb(verbs, "create", "make a token", run_create, EXAMPLES)
    create.add_argument("--owner", metavar="USER", help="whose token it is (yours)")
    create.add_argument("--renewer", action="append", default=[], metavar="USER", help="who else may renew it")
    create.add_argument(
        "--max-life", metavar="TIME", help="7d, 12h, ...: it ends then at the latest (the broker's limit)"
    )
    create.add_argument(
        "--client-config", type=Path, metavar="FILE", help="write a settings file that logs in with the token"
    )
    create.add_argument(
        "--mechanism", choices=MECHANISMS, default="SCRAM-SHA-512", help="what the file logs in with (SCRAM-SHA-512)"
    )
    add_format(create)
    listing = add_verb(verbs, "list", "tokens, without their secrets", run_list, EXAMPLES)
    listing.add_argument("--owner", action="append", metavar="USER", help="of these users only; may be repeated")
    add_format(listing)
    renew = add_verb(verbs, "renew", "let a token live longer", run_renew, EXAMPLES)
    renew.add_argument("token_id", metavar="TOKEN_ID")
    renew.add_argument("--for", dest="period", metavar="TIME", help="24h, 7d, ... from now (the broker's default)")
    add_format(renew)
    expire = add_verb(verbs, "expire", "let a token end", run_expire, EXAMPLES)
    expire.add_argument("token_id", metavar="TOKEN_ID")
    expire.add_argument("--in", dest="period", metavar="TIME", help="in so long: 10m, 1h, ... (at once)")
    add_format(expire)


def _principal(word: str) -> Principal:
    from ottla.client.admin.credentials import Principal

    kind, colon, name = word.partition(":")
    ensure(not colon or (kind and name), f"{word!r} is no principal; write User:NAME, or NAME alone")
    return Principal(kind, name) if colon else Principal("User", word)


def _period_ms(text: str | None, option: str) -> int:
    """-1 where nothing is said: the broker's default, and for expire at once."""
    if text is None:
        return -1
    try:
        return duration_ms(text)
    except ValueError as error:
        raise Failure(f"{option} {text}: {error}") from None


def run_create(options: argparse.Namespace) -> int:
    file = options.client_config
    ensure(file is None or not file.exists(), f"{file} is there already; remove it, or choose another name")
    owner = None if options.owner is None else _principal(options.owner)
    with admin_of(options) as admin:
        token = admin.create_delegation_token(
            renewers=[_principal(word) for word in options.renewer],
            owner=owner,
            max_lifetime_ms=_period_ms(options.max_life, "--max-life"),
        )
    secret = b64encode(token.hmac).decode()
    if file is not None:
        login = scram_login(token.token_id, secret, is_token=True)
        settings = client_settings(settings_of(options), options.mechanism, login)
        write_secret(file, properties_text(settings, f"a token of {token.owner}; keep it secret"))
    _print_created(options, token, secret)
    return OK


def _print_created(options: argparse.Namespace, token: DelegationToken, secret: str) -> None:
    out, row = output_of(options), _row(token)
    hidden = options.client_config is not None
    if options.format == "json":
        names = [heading.lower().replace(" ", "_") for heading in HEADINGS]
        out.value(dict(zip(names, row, strict=True)) | ({} if hidden else {"hmac": secret}))
        return
    for heading, value in zip(HEADINGS, row, strict=True):
        out.line(f"{heading.lower():<14}{value}")
    out.line(f"{'settings':<14}{options.client_config}" if hidden else f"{'hmac':<14}{secret}")


def run_list(options: argparse.Namespace) -> int:
    owners = None if options.owner is None else [_principal(word) for word in options.owner]
    with admin_of(options) as admin:
        tokens = admin.describe_delegation_tokens(owners)
    rows = [_row(each) for each in sorted(tokens, key=lambda each: each.expiry_timestamp_ms)]
    out = output_of(options)
    if rows or options.format == "json":
        out.table(HEADINGS, rows)
    else:
        out.line("no token that you may see")
    return OK


def run_renew(options: argparse.Namespace) -> int:
    period_ms = _period_ms(options.period, "--for")
    with admin_of(options) as admin:
        end_ms = admin.renew_delegation_token(_secret(admin, options.token_id), period_ms=period_ms)
    output_of(options).table(("TOKEN ID", "EXPIRES"), [(options.token_id, shown_time(end_ms))])
    return OK


def run_expire(options: argparse.Namespace) -> int:
    period_ms = _period_ms(options.period, "--in")
    with admin_of(options) as admin:
        end_ms = admin.expire_delegation_token(_secret(admin, options.token_id), period_ms=period_ms)
    output_of(options).table(("TOKEN ID", "EXPIRES"), [(options.token_id, shown_time(end_ms))])
    return OK


def _secret(admin: Admin, token_id: str) -> bytes:
    found = [each.hmac for each in admin.describe_delegation_tokens() if each.token_id == token_id]
    ensure(found, f"there is no token {token_id} that you may see; ottla token list shows them")
    return found[0]


def _row(token: DelegationToken) -> tuple[str | None, ...]:
    return (
        token.token_id,
        str(token.owner),
        str(token.requester),
        ", ".join(map(str, token.renewers)) or None,
        shown_time(token.issue_timestamp_ms),
        shown_time(token.expiry_timestamp_ms),
        shown_time(token.max_timestamp_ms),
    )
