"""`ottla user`: who may log in with SCRAM. Create users, set their passwords, list them, delete them.

1. A password comes from the terminal, a file or stdin, never from the command line (passwords.py). What is sent to the
   broker is its salted hash.
2. `create` refuses a user who is there, `set-password` one who is not: a typing error changes nobody else's password.
3. --client-config writes a settings file that the user can work with at once, readable by its owner only.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.client_files import client_settings, properties_text, scram_login, write_secret
from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, confirmed, ensure, output_of, settings_of
from ottla.cli.output import OK
from ottla.cli.passwords import add_password_options, password_of

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.credentials import ScramCredentialInfo, ScramMechanism

EXAMPLES: Final = """\
examples:
  ottla user create alice                                   asks for the password
  ottla user create alice --generate                        makes one and prints it, this once
  ottla user create alice --generate --client-config alice.properties
  ottla user set-password alice --password-file secret.txt
  ottla user list
  ottla user delete alice --yes
"""
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS: Final = 16_384


def add_verbs(verbs: Verbs) -> None:
    for name, help_text, run in (
        ("create", "let somebody log in", run_create),
        ("set-password", "give a user another password", run_set_password),
    ):
        verb = add_verb(verbs, name, help_text, run, EXAMPLES)
        verb.add_argument("name", metavar="USER")
        add_password_options(verb)
        _add_mechanism(verb, "for this mechanism; may be repeated (SCRAM-SHA-512)")
        verb.add_argument(
            "--iterations",
            type=int,
            default=ITERATIONS,
            metavar="N",
            help=f"how often the password is hashed: 4096 to 16384 ({ITERATIONS})",
        )
        verb.add_argument(
            "--client-config", type=Path, metavar="FILE", help="write a settings file for this user, with the password"
        )
        add_format(verb)
    listing = add_verb(verbs, "list", "users with passwords", run_list, EXAMPLES)
    listing.add_argument("names", nargs="*", metavar="USER")
    add_format(listing)
    delete = add_verb(verbs, "delete", "take users' passwords away; access rules stay", run_delete, EXAMPLES)
    delete.add_argument("names", nargs="+", metavar="USER")
    _add_mechanism(delete, "of this mechanism only; may be repeated")
    delete.add_argument("--if-exists", action="store_true", help="be content if there is none")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _add_mechanism(parser: argparse.ArgumentParser, help_text: str) -> None:
    parser.add_argument("-m", "--mechanism", action="append", choices=MECHANISMS, help=help_text)


def _mechanisms(options: argparse.Namespace) -> list[ScramMechanism]:
    from ottla.client.admin.credentials import ScramMechanism

    names = dict.fromkeys(options.mechanism or ["SCRAM-SHA-512"])
    return [ScramMechanism[name.replace("-", "_")] for name in names]


def _users(admin: Admin) -> dict[str, tuple[ScramCredentialInfo, ...]]:
    return dict(sorted(admin.describe_user_scram_credentials().items()))


# --- create and change -----------------------------------------------------------------------------------------------


def run_create(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        there = {info.mechanism for info in _users(admin).get(options.name, ())}
        ensure(
            there.isdisjoint(_mechanisms(options)),
            f"there is a user {options.name} already; for another password: ottla user set-password {options.name}",
        )
        return _set_password(admin, options, "created")


def run_set_password(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        there = _users(admin).get(options.name)
        ensure(there, f"there is no user {options.name}; to make one: ottla user create {options.name}")
        if options.mechanism is None:  # all that he has: one of two passwords left as it was would surprise
            options.mechanism = [_mechanism_name(info.mechanism) for info in there or ()]
        return _set_password(admin, options, "changed")


def _set_password(admin: Admin, options: argparse.Namespace, state: str) -> int:
    from ottla.client.admin.credentials import ScramUpsertion

    ensure(
        options.client_config is None or not options.client_config.exists(),
        f"{options.client_config} is there already; remove it, or choose another name. Nothing was changed",
    )
    password = password_of(options)
    mechanisms = _mechanisms(options)
    for each in mechanisms:  # a broker refuses two changes of one user in one request
        admin.alter_user_scram_credentials([ScramUpsertion(options.name, password, each, options.iterations)])
    if options.client_config is not None:
        _write_client_config(options, mechanisms[-1], password)
    _print_result(options, state, mechanisms, password)
    return OK


def _write_client_config(options: argparse.Namespace, mechanism: ScramMechanism, password: str) -> None:
    settings = client_settings(settings_of(options), _mechanism_name(mechanism), scram_login(options.name, password))
    comment = f"the login of {options.name}; keep it secret"
    write_secret(options.client_config, properties_text(settings, comment))


def _print_result(options: argparse.Namespace, state: str, mechanisms: list[ScramMechanism], password: str) -> None:
    out = output_of(options)
    names = [_mechanism_name(each) for each in mechanisms]
    if options.format == "json":
        secret = {"password": password} if options.generate else {}
        out.value({"user": options.name, "state": state, "mechanisms": names, **secret})
        return
    out.line(f"{state} {options.name} ({', '.join(names)})")
    if options.generate:
        out.line(f"password: {password}")
    if options.client_config is not None:
        out.line(f"settings with the password: {options.client_config}")


def _mechanism_name(mechanism: ScramMechanism) -> str:
    return mechanism.name.replace("_", "-")


# --- list and delete -------------------------------------------------------------------------------------------------


def run_list(options: argparse.Namespace) -> int:
    with admin_of(options) as admin:
        users = _users(admin)
    missing = [name for name in options.names if name not in users]
    ensure(not missing, f"there is no user {', '.join(missing)}")
    rows = [
        (name, _mechanism_name(info.mechanism), info.iterations)
        for name, infos in users.items()
        for info in infos
        if not options.names or name in options.names
    ]
    output_of(options).table(("USER", "MECHANISM", "ITERATIONS"), rows)
    return OK


def run_delete(options: argparse.Namespace) -> int:
    from ottla.client.admin.credentials import ScramDeletion

    with admin_of(options) as admin:
        users = _users(admin)
        meant = {name: _meant(users.get(name, ()), options) for name in options.names}
        missing = [name for name, infos in meant.items() if not infos]
        ensure(options.if_exists or not missing, f"there is no user {', '.join(missing)}; nothing was deleted")
        wanted = [name for name, infos in meant.items() if infos]
        if wanted and confirmed(f"Delete {', '.join(wanted)}? They cannot log in any more.", yes=options.yes):
            for name in wanted:
                for each in meant[name]:
                    admin.alter_user_scram_credentials([ScramDeletion(name, each)])
            print(f"deleted {', '.join(wanted)}")
            _warn_of_rules(admin, wanted)
    return OK


def _warn_of_rules(admin: Admin, names: list[str]) -> None:
    """A user of the same name would have them; who may not see rules is told nothing."""
    from ottla.client.admin.access import AclFilter
    from ottla.errors import OttlaError

    for name in names:
        try:
            left = len(admin.describe_acls(AclFilter(principal=f"User:{name}")))
        except OttlaError:
            return
        if left:
            print(f"access rules of {name} are left ({left}): ottla acl remove --allow {name} --deny {name}")


def _meant(infos: tuple[ScramCredentialInfo, ...], options: argparse.Namespace) -> list[ScramMechanism]:
    wanted = _mechanisms(options) if options.mechanism else [info.mechanism for info in infos]
    return [info.mechanism for info in infos if info.mechanism in wanted]
