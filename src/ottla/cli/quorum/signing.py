"""Lets nodes into a secured cluster: the node that has the key of the cluster's authority signs their certificates.

1. It signs for open tickets (invitations.py), each once, for as long as it runs. The login of a ticket that was used,
   or whose time is over, is taken away; so are those that an earlier life has left.
2. Started with --new-cluster it makes a ticket itself and says the line for the next machine; when that was used, the
   next one. Other lines are made by `ottla cluster invite` on the same machine (inviting.py).
3. The line is a secret while it is good. It is printed on a terminal; where there is none, it is in a file that only
   its owner can read, and the output says which: what a supervisor keeps is read by others (secure_start.py).
4. It connects as the node that it is: people's passwords change.
5. What is written into the topic by others is passed over, and said in the log.
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
from ottla.cli.output import Failure
from ottla.cli.quorum.after_joining import own_connection
from ottla.cli.quorum.invitations import (
    dismiss,
    dismiss_others,
    ended_names,
    find,
    forget,
    invite,
    open_names,
)
from ottla.cli.quorum.secured_node import NODE_USER
from ottla.cli.quorum.tickets import ANSWERS, GOOD_FOR_MS, REQUESTS, USER_PREFIX, Ticket, WrongRequest, signed
from ottla.cli.quorum.tokens import JoinToken
from ottla.cli.secure_start import TOKEN_KEY
from ottla.clock import SystemClock
from ottla.errors import OttlaError, TopicAlreadyExists

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings
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
    """See the module; `run` goes on until it is cancelled."""

    def __init__(self, directory: Path, cluster_id: str, address: str, *, announces: bool) -> None:
        """`announces`: it says lines for the next machine by itself."""
        from ottla.cli.secure_certificates import read_authority

        self._directory, self._cluster_id, self._address = directory, cluster_id, address
        self._authority: Authority = read_authority(directory)
        self._clock = SystemClock()
        self._announces = announces
        self._announced: str | None = None  # the ticket of the line that was said last
        self._used: dict[str, float] = {}  # tickets, and when their logins end

    async def run(self, client: Mapping[str, object]) -> None:
        while True:
            try:
                await self._run(client)
            except (OttlaError, TimeoutError, Failure) as problem:
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
            await dismiss_others(admin, open_names(self._directory))
            self._used.clear()
            await _make_topics(admin)
            requests = TopicPartition(REQUESTS, 0)
            await consumer.assign([requests])
            await consumer.seek_to_end(requests)
            while True:
                await self._turn(admin, consumer, producer)

    async def _turn(self, admin: AsyncAdmin, consumer: AsyncConsumer, producer: AsyncProducer) -> None:
        if self._announces and self._announced is None:
            invitation = await invite(admin, self._directory, good_for_ms=GOOD_FOR_MS, now_ms=self._clock.now_ms())
            self._announced = invitation.ticket.name
            self._announce(invitation.ticket)
        for record in await consumer.poll(1.0):
            name = (record.key or b"").decode("utf-8", "replace")
            known = find(self._directory, name, self._clock.now_ms())
            answer = None if known is None else self._answer(known.ticket, record.value)
            if answer is not None:
                forget(self._directory, name)  # before: it is good once, whatever happens now
                self._used[name] = self._clock.monotonic_ms() + LOGIN_KEPT_MS
                await producer.send_and_wait(ANSWERS, answer, key=record.key)
                if name == self._announced:
                    self._announced = None
        await self._end_tickets(admin)

    async def _end_tickets(self, admin: AsyncAdmin) -> None:
        now_ms = self._clock.monotonic_ms()
        for name in [name for name, end_ms in self._used.items() if end_ms <= now_ms]:
            await dismiss(admin, name)
            del self._used[name]
        for name in ended_names(self._directory, self._clock.now_ms()):
            await dismiss(admin, name)
            forget(self._directory, name)
            if name == self._announced:
                self._announces, self._announced = False, None
                (self._directory / LINE_FILE).unlink(missing_ok=True)
                log.info("the line for the next machine is good no more; `ottla cluster invite` makes another one")

    def _announce(self, ticket: Ticket) -> None:
        line = line_of(self._cluster_id, self._authority, ticket, self._address)
        if sys.stdout.isatty():
            print(f"ottla: for the next machine, once, within an hour:\n{line}", flush=True)
            return
        write_secret(self._directory / LINE_FILE, f"{line}\n", replace=True)
        print(f"ottla: the line for the next machine is in {self._directory / LINE_FILE}", flush=True)

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


def line_of(cluster_id: str, authority: Authority, ticket: Ticket, address: str) -> str:
    """What is typed on the next machine."""
    from cryptography.hazmat.primitives.serialization import Encoding

    token = JoinToken(cluster_id, authority.certificate.public_bytes(Encoding.DER), ticket)
    return f"ottla broker start --join {address} --token {token.text}"


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


async def sign(settings: BrokerSettings, info: ServerInfo, address: str, *, announces: bool) -> None:
    """Let others in, as long as nobody cancels it."""
    signing = Signing(settings.data_directories[0], info.cluster_id, address, announces=announces)
    await signing.run(own_connection(settings, info))
