"""The first node of a secured cluster lets others in: it makes a ticket, says the line for the next machine, and signs
that machine's certificate.

1. One ticket at a time. When it was used, or its hour is over, the user and the rules that it is are deleted; when it
   was used, the next one is made. A start deletes those that an earlier one has left.
2. The line is a secret for that hour. It is printed on a terminal; where there is none, it is in a file that only its
   owner can read, and the output says which: what a supervisor keeps is read by others (decision of secure_start.py).
3. What is written into the topic by others is passed over, and said in the log.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.client_files import write_secret
from ottla.cli.quorum.secured_node import NODE_USER
from ottla.cli.quorum.tickets import (
    ANSWERS,
    GOOD_FOR_MS,
    REQUESTS,
    USER_PREFIX,
    Ticket,
    WrongRequest,
    signed,
)
from ottla.cli.quorum.tokens import JoinToken
from ottla.cli.secure_start import TOKEN_KEY
from ottla.clock import SystemClock
from ottla.errors import OttlaError, TopicAlreadyExists

if TYPE_CHECKING:
    from ottla.cli.commands.broker import ServerInfo
    from ottla.client.admin.async_admin import AsyncAdmin
    from ottla.client.consumer.async_consumer import AsyncConsumer
    from ottla.client.producer.async_producer import AsyncProducer
    from ottla.net.tls.authority import Authority

log = logging.getLogger(__name__)

LINE_FILE: Final = "join-line.txt"
AGAIN_MS: Final = 5_000
LOGIN_KEPT_MS: Final = 10_000
"""So long the ticket's login stays after the answer: whoever reads it may have to connect once more."""
COPIES: Final = 3


class Signing:
    """See the module; `run` goes on until it is cancelled or the ticket's hour is over."""

    def __init__(self, directory: Path, info: ServerInfo, address: str) -> None:
        from ottla.cli.secure_certificates import read_authority

        self._directory, self._info, self._address = directory, info, address
        self._authority: Authority = read_authority(directory)
        self._clock = SystemClock()
        self._last: str | None = None  # the ticket that was used last, until its login is taken away

    async def run(self, client: Mapping[str, object]) -> None:
        while True:
            try:
                await self._run(client)
                return
            except (OttlaError, TimeoutError) as problem:
                log.warning("no other node can join now; this is tried again: %s", problem)
            await self._clock.sleep(AGAIN_MS)

    async def _run(self, client: Mapping[str, object]) -> None:
        from ottla.client.admin.async_admin import AsyncAdmin
        from ottla.client.consumer.async_consumer import AsyncConsumer
        from ottla.client.producer.async_producer import AsyncProducer
        from ottla.values import TopicPartition

        async with (
            AsyncAdmin(client) as admin,
            AsyncProducer({**client, "linger.ms": 0}) as producer,
            AsyncConsumer({**client, "auto.offset.reset": "latest", "enable.auto.commit": False}) as consumer,
        ):
            await _forget_earlier(admin)
            self._last = None
            await _make_topics(admin)
            requests = TopicPartition(REQUESTS, 0)
            await consumer.assign([requests])
            await consumer.seek_to_end(requests)
            while await self._let_in(admin, consumer, producer):
                pass
            (self._directory / LINE_FILE).unlink(missing_ok=True)
            log.info("the line for the next machine is good no more; a start with --new-cluster makes another one")

    async def _let_in(self, admin: AsyncAdmin, consumer: AsyncConsumer, producer: AsyncProducer) -> bool:
        """One more node; whether it came."""
        ticket = Ticket.make(os.urandom)
        await _admit(admin, ticket)
        self._announce(ticket)
        is_used = await self._sign_one(ticket, admin, consumer, producer)
        if not is_used:
            await _dismiss(admin, ticket.name)
        return is_used

    def _announce(self, ticket: Ticket) -> None:
        from cryptography.hazmat.primitives.serialization import Encoding

        authority = self._authority.certificate.public_bytes(Encoding.DER)
        token = JoinToken(self._info.cluster_id, authority, ticket)
        line = f"ottla broker start --join {self._address} --token {token.text}"
        if sys.stdout.isatty():
            print(f"ottla: for the next machine, once, within an hour:\n{line}", flush=True)
            return
        write_secret(self._directory / LINE_FILE, f"{line}\n", replace=True)
        print(f"ottla: the line for the next machine is in {self._directory / LINE_FILE}", flush=True)

    async def _sign_one(
        self, ticket: Ticket, admin: AsyncAdmin, consumer: AsyncConsumer, producer: AsyncProducer
    ) -> bool:
        """Whether somebody has used the ticket before its time was over. Meanwhile the login of who came last ends."""
        now_ms = self._clock.monotonic_ms()
        kept_ms, end_ms = now_ms + LOGIN_KEPT_MS, now_ms + GOOD_FOR_MS
        while (now_ms := self._clock.monotonic_ms()) < end_ms:
            if self._last is not None and now_ms >= kept_ms:
                await _dismiss(admin, self._last)
                self._last = None
            for record in await consumer.poll(1.0):
                if record.key == ticket.name.encode() and (answer := self._answer(ticket, record.value)):
                    await producer.send_and_wait(ANSWERS, answer, key=record.key)
                    if self._last is not None:
                        await _dismiss(admin, self._last)
                    self._last = ticket.name
                    return True
        return False

    def _answer(self, ticket: Ticket, request: bytes | None) -> bytes | None:
        name = f"{NODE_USER}-{ticket.name.removeprefix(USER_PREFIX)}"
        try:
            csr = ticket.checked(request or b"")
            now = datetime.fromtimestamp(self._clock.now_ms() // 1000, UTC)
            certificate = signed(self._authority, name, csr, now)
        except WrongRequest as problem:
            log.warning("somebody asks for a certificate of a node and does not get it: %s", problem)
            return None
        log.info("a node joins with the ticket %s; its certificate is %s", ticket.name, name)
        key = (self._directory / TOKEN_KEY).read_text("utf-8").strip()
        return ticket.sealed({"certificate": certificate, "token_key": key}, csr, os.urandom)


# --- the login -------------------------------------------------------------------------------------------------------


async def _make_topics(admin: AsyncAdmin) -> None:
    from ottla.client.admin.topics import NewTopic

    there = await admin.list_topics(include_internal=True)
    copies = min(COPIES, len((await admin.describe_cluster()).nodes))
    for name in (REQUESTS, ANSWERS):
        if name not in there:
            configs = {"retention.ms": str(GOOD_FOR_MS), "max.message.bytes": str(64 << 10)}
            try:
                await admin.create_topics([NewTopic(name, 1, copies, configs=configs)])
            except TopicAlreadyExists:
                pass


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


async def _dismiss(admin: AsyncAdmin, name: str) -> None:
    from ottla.client.admin.access import AclFilter
    from ottla.client.admin.credentials import ScramDeletion, ScramMechanism

    await admin.alter_user_scram_credentials([ScramDeletion(name, ScramMechanism.SCRAM_SHA_512)])
    await admin.delete_acls([AclFilter(principal=f"User:{name}")])


async def _forget_earlier(admin: AsyncAdmin) -> None:
    for name in await admin.describe_user_scram_credentials():
        if name.startswith(USER_PREFIX):
            await _dismiss(admin, name)


async def sign(directory: Path, info: ServerInfo, address: str) -> None:
    """Let others in, as long as nobody cancels it."""
    from ottla.cli.secured_files import CLIENT
    from ottla.properties import read_properties

    client = {**read_properties(directory / CLIENT), "bootstrap.servers": address}
    await Signing(directory, info, address).run(client)
