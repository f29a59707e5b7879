"""What makes a node one of a cluster that is kept in a metadata log (KRaft): its roles, and its quorum.

    process.roles=broker              a broker under controllers elsewhere, Apache Kafka's or ours
    process.roles=controller          a controller, and no broker
    process.roles=broker,controller   both

A controller listens on the listeners that controller.listener.names names. A node that is both and names none is a
cluster of its own, which nobody can ask as a controller or join; without process.roles that is what every broker is.
`metadata.log.*` and `metadata.max.*` say how the log is kept.
"""

from __future__ import annotations

from ottla.broker.settings.no_effect import NO_LINGER
from ottla.settings import LIST, LONG, Settings, setting


class KRaftSettings(Settings):
    process_roles = setting(
        "process.roles",
        LIST,
        default=(),
        one_of=("broker", "controller"),
        importance="high",
        doc="What this process is: a broker under the controllers of a quorum (broker), one of these controllers "
        "(controller), or both (broker,controller).",
    )
    controller_listener_names = setting(
        "controller.listener.names",
        LIST,
        default=(),
        importance="high",
        doc="The listeners of the controllers: a controller opens them, a broker asks on the first one.",
    )
    controller_quorum_voters = setting(
        "controller.quorum.voters",
        LIST,
        default=(),
        importance="high",
        doc="The voters of the quorum, as id@host:port.",
    )
    controller_quorum_bootstrap_servers = setting(
        "controller.quorum.bootstrap.servers",
        LIST,
        default=(),
        importance="high",
        doc="Where the quorum can be found.",
    )
    controller_quorum_auto_join_enable = setting(
        "controller.quorum.auto.join.enable",
        bool,
        default=False,
        importance="low",
        doc="Whether a controller joins the voters by itself.",
    )
    ottla_controller_quorum_voters_max = setting(
        "ottla.controller.quorum.voters.max",
        int,
        default=0,
        at_least=0,
        doc="With controller.quorum.auto.join.enable: a controller joins the voters only while there are fewer, and "
        "not again where its vote was taken from it since it started. 0 is no bound, and joining again, as in Kafka.",
    )
    controller_quorum_election_timeout_ms = setting(
        "controller.quorum.election.timeout.ms",
        int,
        default=1000,
        at_least=0,
        unit="ms",
        importance="high",
        doc="How long voters wait for a leader before they elect one.",
    )
    controller_quorum_election_backoff_max_ms = setting(
        "controller.quorum.election.backoff.max.ms",
        int,
        default=1000,
        at_least=0,
        unit="ms",
        importance="high",
        doc="The longest pause between two elections.",
    )
    controller_quorum_fetch_timeout_ms = setting(
        "controller.quorum.fetch.timeout.ms",
        int,
        default=2000,
        at_least=0,
        unit="ms",
        importance="high",
        doc="How long a voter goes without the leader before it stands for election.",
    )
    controller_quorum_fetch_max_bytes = setting(
        "controller.quorum.fetch.max.bytes",
        int,
        default=1_048_576,
        at_least=1,
        unit="bytes",
        importance="low",
        doc="How many bytes one fetch inside the quorum may give.",
    )
    controller_quorum_fetch_snapshot_max_bytes = setting(
        "controller.quorum.fetch.snapshot.max.bytes",
        int,
        default=1_048_576,
        at_least=1,
        unit="bytes",
        importance="low",
        doc="How many bytes one fetch of a snapshot may give.",
    )
    controller_quorum_append_linger_ms = setting(
        "controller.quorum.append.linger.ms",
        int,
        default=25,
        at_least=0,
        unit="ms",
        no_effect=NO_LINGER,
        doc="How long the leader gathers changes before it writes them.",
    )
    controller_quorum_request_timeout_ms = setting(
        "controller.quorum.request.timeout.ms",
        int,
        default=2000,
        at_least=0,
        unit="ms",
        doc="How long an answer inside the quorum may take.",
    )
    controller_quorum_retry_backoff_ms = setting(
        "controller.quorum.retry.backoff.ms",
        int,
        default=20,
        at_least=0,
        unit="ms",
        importance="low",
        doc="How long to wait before a request inside the quorum is repeated.",
    )
    broker_heartbeat_interval_ms = setting(
        "broker.heartbeat.interval.ms",
        int,
        default=2000,
        unit="ms",
        doc="How often a broker shows the quorum that it lives.",
    )
    broker_session_timeout_ms = setting(
        "broker.session.timeout.ms",
        int,
        default=9000,
        unit="ms",
        doc="How long the quorum waits for a sign of life of a broker.",
    )
    initial_broker_registration_timeout_ms = setting(
        "initial.broker.registration.timeout.ms",
        int,
        default=60_000,
        unit="ms",
        doc="How long a broker waits to be taken up by the quorum.",
    )
    metadata_log_dir = setting(
        "metadata.log.dir",
        str,
        default=None,
        importance="high",
        doc="Where the quorum keeps its log.",
    )
    metadata_log_segment_bytes = setting(
        "metadata.log.segment.bytes",
        int,
        default=1_073_741_824,
        at_least=8_388_608,
        unit="bytes",
        importance="high",
        doc="How large a segment of the quorum's log may grow.",
    )
    metadata_log_segment_ms = setting(
        "metadata.log.segment.ms",
        LONG,
        default=604_800_000,
        unit="ms",
        importance="high",
        doc="After how long a segment of the quorum's log ends.",
    )
    metadata_log_max_record_bytes_between_snapshots = setting(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        default=20_971_520,
        at_least=1,
        importance="high",
        doc="After how many bytes the quorum makes a snapshot.",
    )
    metadata_log_max_snapshot_interval_ms = setting(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        default=3_600_000,
        at_least=0,
        unit="ms",
        importance="high",
        doc="After how long the quorum makes a snapshot.",
    )
    metadata_max_idle_interval_ms = setting(
        "metadata.max.idle.interval.ms",
        int,
        default=500,
        at_least=0,
        unit="ms",
        importance="low",
        doc="How often an idle leader of the quorum writes a sign of life.",
    )
    metadata_max_retention_bytes = setting(
        "metadata.max.retention.bytes",
        LONG,
        default=104_857_600,
        unit="bytes",
        importance="high",
        doc="How large the quorum's log and snapshots may grow.",
    )
    metadata_max_retention_ms = setting(
        "metadata.max.retention.ms",
        LONG,
        default=604_800_000,
        unit="ms",
        importance="high",
        doc="How old the quorum's log and snapshots may grow.",
    )
    sasl_mechanism_controller_protocol = setting(
        "sasl.mechanism.controller.protocol",
        str,
        default="GSSAPI",
        importance="high",
        doc="How a broker logs in at the controllers.",
    )
