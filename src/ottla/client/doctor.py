"""The doctor: walks the way of a connection step by step, and says what is wrong and what to do.

    async for finding in examine({"bootstrap.servers": "localhost:9092"}, topic="orders"):
        print(finding.step, finding.result, finding.what, finding.remedy)

The way of a client, in this order: resolve, connect, TLS, versions, login (for every bootstrap server), metadata,
each advertised address, controller, metadata quorum and its voters, internal topics, replication; then a topic and a
group if they are named.

1. Findings come as they are made. A step that cannot be tried because an earlier one failed is "skipped".
2. Nothing is written: no topic is made, no record sent, no offset committed, no group joined.
3. Every step ends within its time; what the facts mean is decided in diagnosis.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Mapping
from random import Random
from typing import Any, Final, TypeVar

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.cluster import ClusterDescription
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.client.admin.offsets import OffsetSpec
from ottla.client.admin.plans import PartlyFailed
from ottla.client.admin.settings import AdminSettings
from ottla.client.diagnosis import (
    INTERNAL_TOPICS,
    Finding,
    Knock,
    judge_clock,
    judge_controller,
    judge_defaults,
    judge_group,
    judge_internal_topic,
    judge_no_quorum,
    judge_quorum,
    judge_stable,
    judge_topic,
    judge_voter,
    named,
)
from ottla.client.metadata import bootstrap_nodes
from ottla.client.network import NetworkClient
from ottla.client.security import security_of
from ottla.client.settings import ClientSettings
from ottla.clock import SystemClock
from ottla.errors import (
    AuthenticationFailed,
    NotConnected,
    OttlaError,
    RequestTimedOut,
    TlsHandshakeFailed,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from ottla.net.link import Link
from ottla.net.transport import TcpTransport
from ottla.quorum_health import QuorumInfo, QuorumReplica, is_silent, silent_ms
from ottla.values import Address, TopicPartition

T = TypeVar("T")

STEP_LIMIT_S: Final = 5.0
ELECTED_MS: Final = 1_500.0
"""Whoever votes asks a new leader within that time."""
CLOCK: Final = SystemClock()


async def examine(
    config: Mapping[str, object], *, topic: str | None = None, group: str | None = None, timeout: float = STEP_LIMIT_S
) -> AsyncIterator[Finding]:
    """Every step, as it is done. `timeout` is the time of one step in seconds."""
    settings = AdminSettings(config)
    reached = False
    for address in settings.bootstrap_addresses:
        async for finding in _knock(settings, config, address, timeout):
            yield finding
            reached = reached or (finding.step.startswith("login") and finding.result in ("ok", "skipped"))
    if not reached:
        remedy = "Mend what failed above first"
        yield Finding("metadata", "skipped", "no bootstrap server could be asked", remedy)
        return
    times = {"default.api.timeout.ms": int(timeout * 1000), "request.timeout.ms": int(timeout * 1000)}
    async with AsyncAdmin({**config, **times}) as admin:
        async for finding in _findings(admin, config, timeout, topic, group):
            yield finding


# --- one bootstrap server ---


async def _knock(
    settings: AdminSettings, config: Mapping[str, object], address: Address, timeout: float
) -> AsyncIterator[Finding]:
    resolved = await _resolve(address, timeout)
    yield resolved
    if resolved.result == "failed":
        return
    connected = await _connect(f"connect to {address}", address, timeout)
    yield connected
    if connected.result == "failed":
        return
    shaken = await _shake_hands(settings, address, timeout)
    yield shaken
    if shaken.result == "failed":
        return
    for finding in await _introduce(config, address, timeout):
        yield finding


async def _resolve(address: Address, timeout: float) -> Finding:
    step = f"resolve {address.host}"
    loop = asyncio.get_running_loop()
    try:
        async with CLOCK.timeout(timeout * 1000):
            places = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        what = f"the name is not known here: {error}" if str(error) else "the name server does not answer"
        return Finding(step, "failed", what, "Check the spelling of bootstrap.servers, DNS and /etc/hosts")
    return Finding(step, "ok", named(dict.fromkeys(place[4][0] for place in places)))


async def _connect(step: str, address: Address, timeout: float) -> Finding:
    try:
        async with CLOCK.timeout(timeout * 1000):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except TimeoutError:
        remedy = "Check host and port; a firewall may drop the packets"
        return Finding(step, "failed", f"nobody answers within {timeout:.0f} s", remedy)
    except ConnectionRefusedError:
        return Finding(step, "failed", "nobody listens there", "Is the broker running, and is this its port?")
    except OSError as error:
        return Finding(step, "failed", str(error.strerror or error), "Check the address and the network between")
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return Finding(step, "ok", "somebody listens there")


class _Quiet:
    """A link that nobody talks on."""

    def opened(self, link: Link) -> None: ...
    def frame_received(self, frame: memoryview) -> None: ...
    def writable_changed(self, writable: bool) -> None: ...
    def closed(self, error: OttlaError | None) -> None: ...


async def _shake_hands(settings: AdminSettings, address: Address, timeout: float) -> Finding:
    step = f"TLS with {address}"
    try:
        tls = security_of(settings, clock=CLOCK, random=Random()).tls
    except OttlaError as error:
        return Finding(step, "failed", _sentence(error), error.remedy)
    if tls is None:
        return Finding(step, "skipped", f"not wanted by security.protocol={settings.security_protocol}")
    try:
        await _handshake(address, tls, timeout)
    except TlsHandshakeFailed as error:
        return Finding(step, "failed", _sentence(error), error.remedy)
    except (OttlaError, TimeoutError) as error:
        what = _sentence(error) if isinstance(error, OttlaError) else f"no handshake within {timeout:.0f} s"
        return Finding(
            step, "failed", what, "The port may not speak TLS: try security.protocol=PLAINTEXT, or its TLS port"
        )
    return Finding(step, "ok", "the certificate is accepted")


async def _handshake(address: Address, tls: ssl.SSLContext, timeout: float) -> None:
    async with CLOCK.timeout(timeout * 1000):
        link = await TcpTransport().connect(address.host, address.port, _Quiet(), tls=tls)
    link.close()


async def _speaks_tls(address: Address, timeout: float) -> bool:
    """Whether somebody there shakes hands, whoever it is."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    try:
        await _handshake(address, anybody, timeout)
    except (OttlaError, TimeoutError, OSError):
        return False
    return True


async def _introduce(config: Mapping[str, object], address: Address, timeout: float) -> list[Finding]:
    """Versions and login: what is said on a connection before anything else."""
    settings = ClientSettings(_common({**config, "bootstrap.servers": str(address)}))
    network = NetworkClient.from_settings(settings)
    versions, login = f"versions of {address}", f"login at {address}"
    (node,) = bootstrap_nodes([address])
    try:
        table = await network.ready(node, timeout_ms=timeout * 1000)
    except AuthenticationFailed as error:
        return [
            Finding(versions, "ok", "it speaks Kafka"),
            Finding(login, "failed", _sentence(error), error.remedy),
        ]
    except OttlaError as error:
        remedy = "Somebody listens but does not answer as Kafka does: is this the broker's client port?"
        if not settings.security_protocol.endswith("SSL") and await _speaks_tls(address, timeout):
            remedy = "It speaks TLS: set security.protocol=SSL (or SASL_SSL)"
        return [Finding(versions, "failed", _sentence(error), remedy)]
    finally:
        await network.close()
    return [
        Finding(versions, "ok", f"it speaks Kafka: {len(table.ranges)} APIs"),
        _logged_in(login, settings),
    ]


def _logged_in(step: str, settings: ClientSettings) -> Finding:
    if not settings.security_protocol.startswith("SASL"):
        return Finding(step, "skipped", f"not wanted by security.protocol={settings.security_protocol}")
    return Finding(step, "ok", f"accepted with {settings.sasl_mechanism}")


def _common(config: Mapping[str, object]) -> dict[str, object]:
    """What a bare connection needs of the settings of an admin client: those that all clients have."""
    known = {each.name for each in ClientSettings.declared()}
    return {name: value for name, value in config.items() if name in known}


# --- the cluster behind it ---


async def _findings(
    admin: AsyncAdmin, config: Mapping[str, object], timeout: float, topic: str | None, group: str | None
) -> AsyncIterator[Finding]:
    try:
        cluster = await admin.describe_cluster()
    except (OttlaError, TimeoutError) as error:
        yield _failed("metadata", error)
        return
    brokers = named(f"{node.id} at {node.address}" for node in cluster.nodes)
    count = "1 broker" if len(cluster.nodes) == 1 else f"{len(cluster.nodes)} brokers"
    yield Finding("metadata", "ok", f"cluster {cluster.cluster_id}, {count}: {brokers}")
    for node in cluster.nodes:
        found = await _connect(f"broker {node.id} at {node.address}", node.address, timeout)
        remedy = (
            "Clients are told this address: set advertised.listeners of the broker to one that can be reached from here"
        )
        yield found if found.result == "ok" else found._replace(remedy=remedy)
    yield judge_controller(cluster)
    async for finding in _check_quorum(admin, config, len(cluster.nodes), timeout):
        yield finding
    async for finding in _check_settings(admin, cluster):
        yield finding
    if topic is not None:
        async for finding in _check_topic(admin, topic):
            yield finding
    if group is not None:
        async for finding in _check_group(admin, group):
            yield finding


async def _check_quorum(
    admin: AsyncAdmin, config: Mapping[str, object], broker_count: int, timeout: float
) -> AsyncIterator[Finding]:
    before_ms = CLOCK.now_ms()
    try:
        quorum = await admin.describe_metadata_quorum(timeout=timeout)
        if any(quorum.has_times and silent_ms(quorum, each) is None for each in quorum.voters):
            await CLOCK.sleep(ELECTED_MS)  # it may lead since a moment ago, and not have heard of them yet
            before_ms = CLOCK.now_ms()
            quorum = await admin.describe_metadata_quorum(timeout=timeout)
    except (OttlaError, TimeoutError) as error:
        yield judge_no_quorum(error) or _failed("quorum", error)
        return
    after_ms = CLOCK.now_ms()
    for finding in judge_quorum(quorum, broker_count):
        yield finding
    for voter in quorum.voters if len(quorum.voters) > 1 else ():
        knock = await _knock_at_voter(config, quorum, voter, timeout)
        yield judge_voter(quorum, voter, knock, broker_count)
    clock = judge_clock(quorum, before_ms, after_ms)
    if clock is not None:
        yield clock


async def _knock_at_voter(
    config: Mapping[str, object], quorum: QuorumInfo, voter: QuorumReplica, timeout: float
) -> Knock | None:
    """Whether somebody listens where the log says that a voter does; of one that is silent, whether it speaks Kafka."""
    endpoints = quorum.endpoints.get(voter.node_id, ())
    if not endpoints:
        return None
    address = Address(endpoints[0].host, endpoints[0].port)
    connected = await _connect(f"voter {voter.node_id}", address, timeout)
    if connected.result != "ok" or not is_silent(quorum, voter):
        return Knock(str(address), connected)
    answered = (await _introduce(config, address, timeout))[0]
    return Knock(str(address), connected, True if answered.result == "ok" else None)


async def _check_settings(admin: AsyncAdmin, cluster: ClusterDescription) -> AsyncIterator[Finding]:
    try:
        numbers = await _broker_numbers(admin, cluster)
    except (NotConnected, RequestTimedOut, TimeoutError) as error:
        yield _failed(f"ask broker {cluster.nodes[0].id}", error)
        return
    for name, setting in INTERNAL_TOPICS.items():
        try:
            described = (await admin.describe_topics([name]))[name]
        except UnknownTopicOrPartition:
            described = None
        except TopicAuthorizationFailed:  # nothing is wrong: it is the brokers' own
            yield Finding(f"topic {name}", "skipped", "this user may not see it")
            continue
        except (OttlaError, TimeoutError) as error:
            yield _failed(f"topic {name}", error)
            continue
        yield judge_internal_topic(name, described, numbers.get(setting), len(cluster.nodes))
    replicas, in_sync = numbers.get("default.replication.factor"), numbers.get("min.insync.replicas")
    yield judge_defaults(replicas, in_sync, len(cluster.nodes))


async def _broker_numbers(admin: AsyncAdmin, cluster: ClusterDescription) -> dict[str, int]:
    """Settings of one broker that are numbers; nothing when this user may not see them. Raises when it is out of reach:
    a port that is open is not yet a broker that answers."""
    names = [*INTERNAL_TOPICS.values(), "default.replication.factor", "min.insync.replicas"]
    resource = ConfigResource(ConfigResourceType.BROKER, str(cluster.nodes[0].id))
    try:
        entries = (await admin.describe_configs([resource], names=names))[resource]
    except (NotConnected, RequestTimedOut):
        raise
    except OttlaError:
        return {}
    return {name: int(each.value) for name, each in entries.items() if each.value is not None and each.value.isdigit()}


async def _check_topic(admin: AsyncAdmin, name: str) -> AsyncIterator[Finding]:
    try:
        described = (await admin.describe_topics([name], include_authorized_operations=True))[name]
    except UnknownTopicOrPartition:
        remedy = f"Check the name, or make it: ottla topic create {name}"
        yield Finding(f"topic {name}", "failed", "there is no such topic, or this user may not see it", remedy)
        return
    except (OttlaError, TimeoutError) as error:
        yield _failed(f"topic {name}", error)
        return
    yield Finding(f"topic {name}", "ok", f"{len(described.partitions)} partitions")
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    settings = await _or_none(admin.describe_configs([resource], names=["min.insync.replicas"]))
    entry = None if settings is None else settings[resource].get("min.insync.replicas")
    for finding in judge_topic(described, int(entry.value) if entry is not None and entry.value else None):
        yield finding
    partitions = [TopicPartition(name, each.partition) for each in described.partitions if each.leader is not None]
    for finding in await _check_transactions(admin, name, partitions):
        yield finding


async def _check_transactions(admin: AsyncAdmin, name: str, partitions: list[TopicPartition]) -> list[Finding]:
    step = f"transactions in {name}"
    latest = dict.fromkeys(partitions, OffsetSpec.LATEST)
    try:
        stables = await admin.list_offsets(latest, isolation_level="read_committed")
        ends = await admin.list_offsets(latest)
    except (OttlaError, TimeoutError) as error:
        return [_failed(step, error)]
    held = [each for each in partitions if stables[each].offset < ends[each].offset]
    producers: Any = await _or_none(admin.describe_producers(held)) if held else {}
    listed = await _or_none(admin.list_transactions()) if held else []
    ids = {each.producer_id: each.transactional_id for each in listed or ()}
    return judge_stable(ends, stables, producers or {}, ids)


async def _check_group(admin: AsyncAdmin, group_id: str) -> AsyncIterator[Finding]:
    try:
        described = (await admin.describe_consumer_groups([group_id]))[group_id]
        committed = await admin.list_consumer_group_offsets(group_id)
        wanted = [name for name, place in committed.items() if place is not None]
        ends = await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST)) if wanted else {}
    except PartlyFailed as error:
        yield _failed(f"group {group_id}", next(iter(error.failed.values())))
        return
    except (OttlaError, TimeoutError) as error:
        yield _failed(f"group {group_id}", error)
        return
    for finding in judge_group(described, committed, ends):
        yield finding


# --- words ---


async def _or_none(work: Awaitable[T]) -> T | None:
    """What is good to know and not needed: nothing when the broker or the user's rights do not give it."""
    try:
        return await work
    except (OttlaError, TimeoutError):
        return None


def _failed(step: str, error: Exception) -> Finding:
    if isinstance(error, OttlaError):
        return Finding(step, "failed", _sentence(error), error.remedy)
    return Finding(step, "failed", str(error) or "it took too long", "Look at the brokers, or give it more time")


def _sentence(error: OttlaError) -> str:
    return error.what if not error.detail else f"{error.what}: {error.detail}"
