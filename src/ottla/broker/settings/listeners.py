"""Where clients connect, and how much a connection may cost the broker.

The listeners themselves are texts here; endpoints.py reads them. Values for one listener only are written as
listener.name.<name>.<setting>; see the package.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.settings.no_effect import (
    CONTROL_PLANE,
    EARLY_LISTENERS,
    FIXED_TIMES,
    NO_QUEUE,
    THREADS,
    UNSTABLE_VERSIONS,
)
from ottla.settings import LIST, LONG, Settings, setting

INT_MAX: Final = 2**31 - 1


def parse_connection_overrides(text: str) -> dict[str, int]:
    """Limits by address or host name; ValueError when the text is not name:count with commas between."""
    found: dict[str, int] = {}
    for pair in (part.strip() for part in text.split(",") if part.strip()):
        name, _, count = pair.rpartition(":")
        if not name or not count.strip().isascii() or not count.strip().isdigit():
            raise ValueError(pair)
        found[name.strip().strip("[]")] = int(count)
    return found


def _overrides_problem(text: str) -> str | None:
    try:
        parse_connection_overrides(text)
    except ValueError as pair:
        return f"{str(pair)!r} is not name:count, like 127.0.0.1:100"
    return None


class ListenerSettings(Settings):
    listeners = setting(
        "listeners",
        LIST,
        default=("PLAINTEXT://127.0.0.1:9092",),
        importance="high",
        dynamic="per-broker",
        doc="Where the broker listens, as NAME://host:port; an empty host is every interface, port 0 is any free port.",
    )
    advertised_listeners = setting(
        "advertised.listeners",
        LIST,
        default=None,
        importance="high",
        doc="What the broker tells clients to connect to, when that is not what it listens on; same form as listeners.",
    )
    listener_security_protocol_map = setting(
        "listener.security.protocol.map",
        str,
        default="SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        importance="low",
        dynamic="per-broker",
        doc="Which protocol each listener name speaks: NAME:PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, "
        "with commas between.",
    )
    inter_broker_listener_name = setting(
        "inter.broker.listener.name",
        str,
        default=None,
        doc="Which listener other brokers use; without it, the one that speaks security.inter.broker.protocol.",
    )
    security_inter_broker_protocol = setting(
        "security.inter.broker.protocol",
        str,
        default="PLAINTEXT",
        one_of=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        doc="Which protocol brokers speak with each other, when inter.broker.listener.name is not given.",
    )
    control_plane_listener_name = setting(
        "control.plane.listener.name",
        str,
        default=None,
        importance="high",
        no_effect=CONTROL_PLANE,
        doc="Which listener carries only the controller's requests, so that clients cannot hold them up.",
    )
    early_start_listeners = setting(
        "early.start.listeners",
        LIST,
        default=None,
        importance="high",
        no_effect=EARLY_LISTENERS,
        doc="Which listeners open before access rights are loaded.",
    )
    ottla_allow_insecure_listeners = setting(
        "ottla.allow.insecure.listeners",
        bool,
        default=False,
        importance="high",
        doc="Whether a listener that others can reach may do without authentication; anybody who reaches it "
        "may read, write and delete everything.",
    )
    ottla_admin_listener = setting(
        "ottla.admin.listener",
        str,
        default="127.0.0.1:9644",
        doc="Where metrics, health and the console are served over HTTP, as host:port; an empty text turns it off, "
        "port 0 is any free port.",
    )
    ottla_schema_registry_listener = setting(
        "ottla.schema.registry.listener",
        str,
        default="",
        doc="Where the schema registry is served over HTTP, as host:port; users expect port 8081. An empty text turns "
        "it off, port 0 is any free port. Needs ottla[registry].",
    )
    ottla_admin_allowed_hosts = setting(
        "ottla.admin.allowed.hosts",
        LIST,
        default=(),
        importance="low",
        doc="Names under which browsers may reach the admin listener where it is not on the loopback, beside "
        "addresses, the machine's name and advertised listeners.",
    )
    ottla_console_enable = setting(
        "ottla.console.enable",
        bool,
        default=True,
        doc="Whether the console is served at the admin listener; needs ottla[console], without which it is off.",
    )
    ottla_console_read_only = setting(
        "ottla.console.read.only",
        bool,
        default=False,
        doc="Whether the console shows everything and changes nothing, whoever asks.",
    )
    ottla_admin_login = setting(
        "ottla.admin.login",
        bool,
        default=False,
        doc="Whether the admin listener wants a login, by the name and SCRAM password of a user: on the console's "
        "page, or as HTTP Basic authentication. Metrics are for users who may Describe the cluster; health is told to "
        "everybody, without reasons.",
    )

    # --- sockets ---

    socket_send_buffer_bytes = setting(
        "socket.send.buffer.bytes",
        int,
        default=-1,
        at_least=-1,
        unit="bytes",
        importance="high",
        doc="How much the system may hold of what is written to a socket; -1 is the system's choice.",
    )
    socket_receive_buffer_bytes = setting(
        "socket.receive.buffer.bytes",
        int,
        default=-1,
        at_least=-1,
        unit="bytes",
        importance="high",
        doc="How much the system may hold of what a socket has received; -1 is the system's choice.",
    )
    socket_listen_backlog_size = setting(
        "socket.listen.backlog.size",
        int,
        default=50,
        at_least=1,
        doc="How many connections may wait to be accepted; 1024 where it is not set, because one loop accepts them.",
    )
    socket_request_max_bytes = setting(
        "socket.request.max.bytes",
        int,
        default=104_857_600,
        at_least=1,
        unit="bytes",
        importance="high",
        doc="The largest request that is read; a larger one ends its connection.",
    )
    socket_connection_setup_timeout_ms = setting(
        "socket.connection.setup.timeout.ms",
        LONG,
        default=10_000,
        unit="ms",
        no_effect=FIXED_TIMES,
        doc="How long a connection to another broker may take to come up, at the first try.",
    )
    socket_connection_setup_timeout_max_ms = setting(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        default=30_000,
        unit="ms",
        no_effect=FIXED_TIMES,
        doc="How long a connection to another broker may take to come up, after many tries.",
    )

    # --- connections and requests ---

    connections_max_idle_ms = setting(
        "connections.max.idle.ms",
        LONG,
        default=600_000,
        unit="ms",
        doc="After how long without a request a connection is closed.",
    )
    max_connections = setting(
        "max.connections",
        int,
        default=INT_MAX,
        at_least=0,
        dynamic="cluster-wide",
        doc="How many connections there may be at one time; may be set per listener.",
    )
    max_connections_per_ip = setting(
        "max.connections.per.ip",
        int,
        default=INT_MAX,
        at_least=0,
        dynamic="cluster-wide",
        doc="How many connections one address may have at one time.",
    )
    max_connections_per_ip_overrides = setting(
        "max.connections.per.ip.overrides",
        str,
        default="",
        dynamic="cluster-wide",
        check=_overrides_problem,
        doc="Other limits for some addresses or host names, as name:count with commas between.",
    )
    max_connection_creation_rate = setting(
        "max.connection.creation.rate",
        int,
        default=INT_MAX,
        at_least=0,
        dynamic="cluster-wide",
        doc="How many new connections are accepted in a second; may be set per listener.",
    )
    queued_max_requests = setting(
        "queued.max.requests",
        int,
        default=500,
        at_least=1,
        importance="high",
        no_effect=NO_QUEUE,
        doc="How many requests may wait for a thread that handles them; here each is begun when it is read.",
    )
    queued_max_request_bytes = setting(
        "queued.max.request.bytes",
        LONG,
        default=67_108_864,
        unit="bytes",
        doc="How many bytes of requests may be in memory, being received or waiting for their answers, before large"
        " ones are held back and each connection has one request at a time; -1 is no limit.",
    )
    request_timeout_ms = setting(
        "request.timeout.ms",
        int,
        default=30_000,
        unit="ms",
        importance="high",
        doc="How long the broker waits for an answer to a request of its own.",
    )
    max_request_partition_size_limit = setting(
        "max.request.partition.size.limit",
        int,
        default=2000,
        at_least=1,
        doc="How many partitions one answer to DescribeTopicPartitions may hold.",
    )
    num_network_threads = setting(
        "num.network.threads",
        int,
        default=3,
        at_least=1,
        importance="high",
        dynamic="cluster-wide",
        no_effect=THREADS,
        doc="How many threads serve sockets in Kafka; here one loop does.",
    )
    num_io_threads = setting(
        "num.io.threads",
        int,
        default=8,
        at_least=1,
        importance="high",
        dynamic="cluster-wide",
        no_effect=THREADS,
        doc="How many threads work on requests in Kafka; here one loop does.",
    )
    background_threads = setting(
        "background.threads",
        int,
        default=10,
        at_least=1,
        importance="high",
        dynamic="cluster-wide",
        no_effect=THREADS,
        doc="How many threads do chores; here they are short slices of the loop.",
    )
    connection_failed_authentication_delay_ms = setting(
        "connection.failed.authentication.delay.ms",
        int,
        default=100,
        at_least=0,
        unit="ms",
        importance="low",
        doc="How long a connection stays open after a failed login, to slow down guessing.",
    )
    connections_max_reauth_ms = setting(
        "connections.max.reauth.ms",
        LONG,
        default=0,
        unit="ms",
        doc="How long a login is good before it must be repeated; 0 is as long as the connection lives.",
    )
    unstable_api_versions_enable = setting(
        "unstable.api.versions.enable",
        bool,
        default=False,
        importance="high",
        no_effect=UNSTABLE_VERSIONS,
        doc="Whether versions of APIs that may still change are served.",
    )
