"""How a node that joins a secured cluster gets its certificate: by the ticket that its token brought (tickets.py).

    ca.pem        the cluster's authority, from the token
    server.pem    the node's key, which it made, and the certificate that was signed for it
    token.key     the secret of delegation tokens, which all nodes have

All are written into the data directory, readable by their owner only, before the directory is formatted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.client_files import scram_login, write_secret
from ottla.cli.output import Failure
from ottla.cli.quorum.secured_node import as_node
from ottla.cli.quorum.tickets import ANSWERS, REQUESTS, Ticket, signing_request
from ottla.cli.secure_start import MECHANISM, PROTOCOL, TOKEN_KEY
from ottla.cli.secured_files import AUTHORITY, SERVER
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.cli.quorum.places import Place
    from ottla.cli.quorum.tokens import JoinToken

ANSWER_WITHIN_MS: Final = 30_000


def make_private(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o700)
    except OSError as error:
        raise Failure(f"cannot make {directory} for this user alone: {error.strerror}") from None


def with_ticket(directory: Path, token: JoinToken) -> dict[str, object]:
    """How to connect as who has the ticket, to nobody but brokers of the token's authority."""
    assert token.ticket is not None, "of a secured cluster"
    write_secret(directory / AUTHORITY, token.authority_pem, replace=True)
    return {
        "security.protocol": PROTOCOL,
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": scram_login(token.ticket.name, token.ticket.secret),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str((directory / AUTHORITY).absolute()),
    }


async def certified(directory: Path, place: Place, ticket: Ticket, client: Mapping[str, object]) -> dict[str, object]:
    """Ask for it, wait, write it down; how to connect to controllers with it."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    from ottla.cli.secure_certificates import hosts_of

    key = ec.generate_private_key(ec.SECP256R1())
    hosts = list(dict.fromkeys([*hosts_of(place.endpoints), place.advertised_host, place.controller[0]]))
    answer = await _answer(ticket, signing_request(key, hosts), client)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    write_secret(directory / TOKEN_KEY, answer["token_key"], replace=True)
    write_secret(directory / SERVER, pem + answer["certificate"], replace=True)
    return as_node(directory)


async def _answer(ticket: Ticket, csr: str, client: Mapping[str, Any]) -> dict[str, str]:
    from ottla.client.consumer.async_consumer import AsyncConsumer
    from ottla.client.producer.async_producer import AsyncProducer
    from ottla.values import TopicPartition

    clock = SystemClock()
    plain = {name: value for name, value in client.items() if not name.endswith("timeout.ms")}
    async with (
        AsyncConsumer({**plain, "auto.offset.reset": "earliest", "enable.auto.commit": False}) as consumer,
        AsyncProducer({**plain, "enable.idempotence": False}) as producer,
    ):
        await consumer.assign([TopicPartition(ANSWERS, 0)])
        await producer.send_and_wait(REQUESTS, ticket.request(csr), key=ticket.name.encode())
        end_ms = clock.monotonic_ms() + ANSWER_WITHIN_MS
        while clock.monotonic_ms() < end_ms:
            for record in await consumer.poll(1.0):
                if record.key == ticket.name.encode() and (found := ticket.opened(record.value or b"", csr)):
                    return found
    raise Failure(
        "nobody has signed a certificate for this node: the first node of the cluster does that, the one that was "
        "started with --new-cluster. Start it, and take another line there (ottla cluster invite); each is good once"
    )
