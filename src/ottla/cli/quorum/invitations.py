"""Tickets that are open: files in the directory of the node that signs, which has the key of the cluster's authority.

    DIR/ottla-join-1f2e3d4c5b6a.ticket      {"secret": "...", "expires_ms": ...}, for its owner alone

    invitation = await invite(admin, directory, good_for_ms=..., now_ms=...)     who wants a line for another machine
    invitation = find(directory, name, now_ms)                                   who signs (signing.py), when asked

1. A ticket is a user with rules, which every broker knows, and a file, which only the signing node has. Without the
   file nothing is signed; so whoever takes it away, by using the ticket or because its time is over, ends it.
2. The file is there before the user is: a start of the signing node takes users away that have none.
3. Names come from strangers, too. One that is no ticket's is no file's.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.client_files import write_secret
from ottla.cli.output import Failure
from ottla.cli.quorum.tickets import ANSWERS, REQUESTS, USER_PREFIX, Ticket
from ottla.light_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.client.admin.async_admin import AsyncAdmin

SUFFIX: Final = ".ticket"
OPEN_LIMIT: Final = 100
_NAME: Final = re.compile(re.escape(USER_PREFIX) + r"[0-9a-f]{12}")


class Invitation(NamedTuple):
    """A ticket, and until when it is good."""

    ticket: Ticket
    expires_ms: int


# --- files -----------------------------------------------------------------------------------------------------------


def keep(directory: Path, invitation: Invitation) -> None:
    if len(open_names(directory)) >= OPEN_LIMIT:
        raise Failure(f"{OPEN_LIMIT} lines are open already; use them, or wait until they are good no more")
    content = {"secret": invitation.ticket.secret, "expires_ms": invitation.expires_ms}
    write_secret(_path(directory, invitation.ticket.name), json.dumps(content))


def find(directory: Path, name: str, now_ms: int) -> Invitation | None:
    """The open ticket of that name; None where it is none, was used, or is good no more."""
    invitation = _read(directory, name) if _NAME.fullmatch(name) else None
    return None if invitation is None or invitation.expires_ms <= now_ms else invitation


def open_names(directory: Path) -> list[str]:
    """Of all tickets that have a file, good or not."""
    return sorted(path.stem for path in directory.glob(f"*{SUFFIX}") if _NAME.fullmatch(path.stem))


def ended_names(directory: Path, now_ms: int) -> list[str]:
    """Of those whose time is over."""
    return [name for name in open_names(directory) if find(directory, name, now_ms) is None]


def forget(directory: Path, name: str) -> None:
    _path(directory, name).unlink(missing_ok=True)


def _path(directory: Path, name: str) -> Path:
    return directory / f"{name}{SUFFIX}"


def _read(directory: Path, name: str) -> Invitation | None:
    try:
        content = json.loads(_path(directory, name).read_text("utf-8"))
        return Invitation(Ticket(name, str(content["secret"])), int(content["expires_ms"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


# --- users -----------------------------------------------------------------------------------------------------------


async def invite(admin: AsyncAdmin, directory: Path, *, good_for_ms: int, now_ms: int) -> Invitation:
    """Make a ticket that is good for so long."""
    invitation = Invitation(Ticket.make(os.urandom), now_ms + good_for_ms)
    keep(directory, invitation)
    try:
        await _admit(admin, invitation.ticket)
    except BaseException:
        forget(directory, invitation.ticket.name)
        raise
    return invitation


async def _admit(admin: AsyncAdmin, ticket: Ticket) -> None:
    from ottla.client.admin.access import AclBinding, ResourceType
    from ottla.client.admin.credentials import ScramUpsertion
    from ottla.client.admin.operations import AclOperation

    user = f"User:{ticket.name}"
    await admin.create_acls(
        [
            AclBinding(ResourceType.TOPIC, REQUESTS, user, AclOperation.WRITE),
            AclBinding(ResourceType.TOPIC, ANSWERS, user, AclOperation.READ),
            AclBinding(ResourceType.CLUSTER, "kafka-cluster", user, AclOperation.DESCRIBE),
        ]
    )
    await admin.alter_user_scram_credentials([ScramUpsertion(ticket.name, ticket.secret)])


async def dismiss(admin: AsyncAdmin, name: str) -> None:
    """Take a ticket's user away, and its rules."""
    from ottla.client.admin.access import AclFilter
    from ottla.client.admin.credentials import ScramDeletion, ScramMechanism

    await admin.alter_user_scram_credentials([ScramDeletion(name, ScramMechanism.SCRAM_SHA_512)])
    await admin.delete_acls([AclFilter(principal=f"User:{name}")])


async def dismiss_others(admin: AsyncAdmin, kept: Sequence[str]) -> None:
    """All tickets' users but these: an earlier life may have left some."""
    for name in await admin.describe_user_scram_credentials():
        if name.startswith(USER_PREFIX) and name not in kept:
            await dismiss(admin, name)
