"""What every client can be told: producer, consumer and admin inherit from here.

Names and defaults are Java's; librdkafka's and kafka-python's words are aliases. What is here, is acted upon: a name
that means nothing to this client is unknown, because a setting that is taken and ignored is a lie. What Java's clients
know and this one does not need is passed over with a warning (java_settings.py), so that their files can be used.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import ClassVar, Final, Self

from ottla.client.security_settings import SecuritySettings
from ottla.errors import InvalidConfig, InvalidSetting
from ottla.settings import LIST, LONG, Source, WrittenValue, setting
from ottla.values import Address, parse_addresses

_made: Final = itertools.count(1)


def _addresses_problem(addresses: tuple[str, ...]) -> str | None:
    try:
        parse_addresses(addresses)
    except InvalidSetting as error:
        return error.detail
    return None


def _may_be_a_class(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("org.", "io.", "com."))


class ClientSettings(SecuritySettings):
    topics_are_made_by_asking: ClassVar[bool] = True
    """Whether a broker may make a topic because this kind of client asks for it. A client that declares
    allow.auto.create.topics is asked instead."""

    bootstrap_servers = setting(
        "bootstrap.servers",
        LIST,
        check=_addresses_problem,
        importance="high",
        aliases=["metadata.broker.list"],
        doc="Where to begin: one or more host:port of brokers. The rest of the cluster is found from there.",
    )
    client_id = setting(
        "client.id", str, default="", doc="The name of this client in logs and quotas of the brokers; else one is made."
    )
    client_rack = setting(
        "client.rack", str, default="", importance="low", doc="Where this client stands, to read from a replica nearby."
    )
    enable_metrics_push = setting(
        "enable.metrics.push",
        bool,
        default=True,
        importance="low",
        doc="Whether brokers that ask for this client's metrics get them.",
    )
    client_dns_lookup = setting(
        "client.dns.lookup",
        str,
        default="use_all_dns_ips",
        one_of=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        doc="Whether a bootstrap name stands for itself, or for the full names of all its addresses.",
    )

    # --- time ---

    request_timeout_ms = setting(
        "request.timeout.ms",
        int,
        default=30_000,
        at_least=0,
        unit="ms",
        aliases=["socket.timeout.ms"],
        doc="How long to wait for the answer to one request.",
    )
    default_api_timeout_ms = setting(
        "default.api.timeout.ms",
        int,
        default=60_000,
        at_least=0,
        unit="ms",
        doc="How long a call that was given no time may take, with all its retries.",
    )
    retry_backoff_ms = setting(
        "retry.backoff.ms",
        LONG,
        default=100,
        at_least=0,
        unit="ms",
        importance="low",
        doc="How long to wait before a failed request is tried again; it doubles with every failure.",
    )
    retry_backoff_max_ms = setting(
        "retry.backoff.max.ms",
        LONG,
        default=1_000,
        at_least=0,
        unit="ms",
        importance="low",
        doc="The longest such wait.",
    )

    # --- connections ---

    reconnect_backoff_ms = setting(
        "reconnect.backoff.ms",
        LONG,
        default=50,
        at_least=0,
        unit="ms",
        importance="low",
        doc="How long to wait before connecting to the same broker again; it doubles with every failure.",
    )
    reconnect_backoff_max_ms = setting(
        "reconnect.backoff.max.ms",
        LONG,
        default=1_000,
        at_least=0,
        unit="ms",
        importance="low",
        doc="The longest such wait.",
    )
    socket_connection_setup_timeout_ms = setting(
        "socket.connection.setup.timeout.ms",
        LONG,
        default=10_000,
        at_least=1,
        unit="ms",
        doc="How long a connection may take until it is ready; it doubles with every failure.",
    )
    socket_connection_setup_timeout_max_ms = setting(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        default=30_000,
        at_least=1,
        unit="ms",
        doc="The longest time for that.",
    )
    connections_max_idle_ms = setting(
        "connections.max.idle.ms",
        LONG,
        default=540_000,
        at_least=-1,
        unit="ms",
        doc="A connection that is not used for so long is closed; -1 keeps it.",
    )
    send_buffer_bytes = setting(
        "send.buffer.bytes",
        int,
        default=131_072,
        at_least=-1,
        unit="bytes",
        aliases=["socket.send.buffer.bytes"],
        doc="The system's buffer for sending (SO_SNDBUF); -1 leaves it to the system.",
    )
    receive_buffer_bytes = setting(
        "receive.buffer.bytes",
        int,
        default=65_536,
        at_least=-1,
        unit="bytes",
        aliases=["socket.receive.buffer.bytes"],
        doc="The system's buffer for receiving (SO_RCVBUF); -1 leaves it to the system.",
    )

    # --- what is known of the cluster ---

    metadata_max_age_ms = setting(
        "metadata.max.age.ms",
        LONG,
        default=300_000,
        at_least=0,
        unit="ms",
        importance="low",
        aliases=["topic.metadata.refresh.interval.ms"],
        doc="How old may be what is known of the cluster before it is asked for again.",
    )
    metadata_recovery_strategy = setting(
        "metadata.recovery.strategy",
        str,
        default="rebootstrap",
        one_of=("none", "rebootstrap"),
        importance="low",
        doc="What to do when no known broker can be reached: begin again with bootstrap.servers, or go on trying.",
    )
    metadata_recovery_rebootstrap_trigger_ms = setting(
        "metadata.recovery.rebootstrap.trigger.ms",
        LONG,
        default=300_000,
        at_least=0,
        unit="ms",
        importance="low",
        doc="After so long without an answer about the cluster the client begins again with bootstrap.servers.",
    )

    @classmethod
    def _gather(
        cls,
        dotted: Mapping[str, object],
        keywords: Mapping[str, object],
        source: Source,
        refusals: list[InvalidConfig],
    ) -> dict[str, WrittenValue]:
        if not all(key in cls._slots for key in dotted) or any(map(_may_be_a_class, dotted.values())):
            from ottla.client.java_settings import used  # few need it

            dotted = used(dotted, cls._declared, cls._slots)
        return super()._gather(dotted, keywords, source, refusals)

    @property
    def call_timeout_ms(self) -> int:
        """How long a call that was given no time may take: never less than one request may."""
        return max(self.default_api_timeout_ms, self.request_timeout_ms)

    @property
    def bootstrap_addresses(self) -> list[Address]:
        """Where to begin, without repeats."""
        return parse_addresses(self.bootstrap_servers)

    def named(self, kind: str) -> Self:
        """The same with a client.id: the one that was given, or `kind` and a number, as Java makes it."""
        return self if self.client_id else self.replaced({"client.id": f"{kind}-{next(_made)}"})

    def validate(self) -> None:
        """Rules between settings; a subclass calls this one too."""
        if self.default_api_timeout_ms < self.request_timeout_ms and self._is_set("default.api.timeout.ms"):
            raise InvalidSetting(
                f"default.api.timeout.ms={self.default_api_timeout_ms} is less than"
                f" request.timeout.ms={self.request_timeout_ms}; a call takes at least one request"
            )

    def _is_set(self, name: str) -> bool:
        return self.source(name).value != "default"
