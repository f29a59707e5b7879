"""Who this broker is, which cluster it belongs to, and how it comes and goes.

Without zookeeper.connect the broker is a cluster of its own and keeps the cluster's truth in its first log directory.
The names of ZooKeeper's time are those of Apache Kafka 3.9, the last release that knew it.
"""

from __future__ import annotations

from ottla.broker.settings.no_effect import POLICIES, REVOCATION
from ottla.settings import CALLABLE, LIST, LONG, Password, Settings, setting


class ClusterSettings(Settings):
    broker_id = setting(
        "broker.id",
        int,
        default=-1,
        at_least=-1,
        importance="high",
        doc="The number of this broker in its cluster; -1 is 0 for a broker on its own, and a free one "
        "above reserved.broker.max.id with ZooKeeper.",
    )
    node_id = setting(
        "node.id",
        int,
        default=None,
        at_least=0,
        importance="high",
        doc="The newer name of broker.id; when both are given they must be equal.",
    )
    broker_id_generation_enable = setting(
        "broker.id.generation.enable",
        bool,
        default=True,
        doc="Whether a broker without an id may get one; when not, it does not start without broker.id.",
    )
    reserved_broker_max_id = setting(
        "reserved.broker.max.id",
        int,
        default=1000,
        at_least=0,
        doc="The largest id that may be chosen by hand; generated ones lie above.",
    )
    broker_rack = setting(
        "broker.rack",
        str,
        default=None,
        doc="Where the broker stands, so that the replicas of a partition are spread and readers find a near one.",
    )
    ottla_cluster_id = setting(
        "ottla.cluster.id",
        str,
        default=None,
        doc="The id the cluster must have; a new one takes it, a directory of another cluster is refused.",
    )
    ottla_internal_topics_fewer_copies = setting(
        "ottla.internal.topics.fewer.copies",
        bool,
        default=False,
        doc="Whether the topics of groups, transactions and schemas are made at once where there are fewer brokers "
        "than copies are asked for, with a copy on each; otherwise they are made when there are enough, as in Kafka.",
    )
    ottla_broker_networks = setting(
        "ottla.broker.networks",
        LIST,
        default=(),
        importance="low",
        doc="Addresses and networks (10.1.0.0/16) that brokers ask from, beside the addresses that they advertise; for "
        "brokers behind an address translation that do not log in at each other.",
    )
    inter_broker_protocol_version = setting(
        "inter.broker.protocol.version",
        str,
        default="3.9-IV0",
        doc="Which version brokers of a ZooKeeper cluster speak with each other; decides what a mixed cluster can do.",
    )

    zookeeper_connect = setting(
        "zookeeper.connect",
        str,
        default=None,
        importance="high",
        doc="The ZooKeeper servers as host:port with commas between, and a path behind the last one; with "
        "it the broker joins a cluster.",
    )
    zookeeper_session_timeout_ms = setting(
        "zookeeper.session.timeout.ms",
        int,
        default=18_000,
        unit="ms",
        importance="high",
        doc="How long ZooKeeper waits for a sign of life before the broker counts as gone.",
    )
    zookeeper_connection_timeout_ms = setting(
        "zookeeper.connection.timeout.ms",
        int,
        default=None,
        unit="ms",
        importance="high",
        doc="How long the first connection to ZooKeeper may take; without it, as long as the session.",
    )
    zookeeper_max_in_flight_requests = setting(
        "zookeeper.max.in.flight.requests",
        int,
        default=10,
        at_least=1,
        importance="high",
        doc="How many requests to ZooKeeper may be under way.",
    )
    zookeeper_set_acl = setting(
        "zookeeper.set.acl",
        bool,
        default=False,
        importance="high",
        doc="Whether what the broker writes into ZooKeeper may only be changed by brokers.",
    )
    ottla_zookeeper_sasl_mechanism = setting(
        "ottla.zookeeper.sasl.mechanism",
        str,
        default=None,
        doc="How the broker logs in to ZooKeeper: DIGEST-MD5 or GSSAPI. Java takes it from a JAAS file.",
    )
    ottla_zookeeper_sasl_username = setting(
        "ottla.zookeeper.sasl.username",
        str,
        default=None,
        doc="The name for DIGEST-MD5, or the principal for GSSAPI, as in the Client section of a JAAS file.",
    )
    ottla_zookeeper_sasl_password = setting(
        "ottla.zookeeper.sasl.password", Password, default=None, doc="The password that goes with it."
    )
    ottla_zookeeper_sasl_keytab = setting(
        "ottla.zookeeper.sasl.keytab",
        str,
        default=None,
        doc="The file with the principal's key for GSSAPI; without it the system's ticket cache is used.",
    )
    ottla_zookeeper_sasl_service = setting(
        "ottla.zookeeper.sasl.service",
        str,
        default="zookeeper",
        importance="low",
        doc="The name of ZooKeeper's service for GSSAPI.",
    )
    zookeeper_ssl_client_enable = setting(
        "zookeeper.ssl.client.enable", bool, default=False, doc="Whether ZooKeeper is spoken to over TLS."
    )
    zookeeper_ssl_protocol = setting(
        "zookeeper.ssl.protocol", str, default="TLSv1.2", importance="low", doc="The TLS version for ZooKeeper."
    )
    zookeeper_ssl_enabled_protocols = setting(
        "zookeeper.ssl.enabled.protocols",
        LIST,
        default=None,
        importance="low",
        doc="Which TLS versions ZooKeeper may choose from.",
    )
    zookeeper_ssl_cipher_suites = setting(
        "zookeeper.ssl.cipher.suites",
        LIST,
        default=None,
        importance="low",
        doc="Which ciphers ZooKeeper may choose from.",
    )
    zookeeper_ssl_endpoint_identification_algorithm = setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        str,
        default="HTTPS",
        importance="low",
        doc="How the name in ZooKeeper's certificate is checked; an empty text turns the check off.",
    )
    zookeeper_ssl_keystore_location = setting(
        "zookeeper.ssl.keystore.location",
        str,
        default=None,
        doc="The file with the broker's certificate for ZooKeeper.",
    )
    zookeeper_ssl_keystore_password = setting(
        "zookeeper.ssl.keystore.password", Password, default=None, doc="What opens that file."
    )
    zookeeper_ssl_keystore_type = setting(
        "zookeeper.ssl.keystore.type", str, default=None, doc="The form of that file."
    )
    zookeeper_ssl_truststore_location = setting(
        "zookeeper.ssl.truststore.location",
        str,
        default=None,
        doc="The file with the certificates that ZooKeeper's must come from.",
    )
    zookeeper_ssl_truststore_password = setting(
        "zookeeper.ssl.truststore.password", Password, default=None, doc="What opens that file."
    )
    zookeeper_ssl_truststore_type = setting(
        "zookeeper.ssl.truststore.type", str, default=None, doc="The form of that file."
    )
    zookeeper_ssl_crl_enable = setting(
        "zookeeper.ssl.crl.enable",
        bool,
        default=False,
        importance="low",
        no_effect=REVOCATION,
        doc="Whether lists of withdrawn certificates are asked for ZooKeeper's.",
    )
    zookeeper_ssl_ocsp_enable = setting(
        "zookeeper.ssl.ocsp.enable",
        bool,
        default=False,
        importance="low",
        no_effect=REVOCATION,
        doc="Whether certificates of ZooKeeper are checked online.",
    )

    # --- coming and going ---

    controlled_shutdown_enable = setting(
        "controlled.shutdown.enable",
        bool,
        default=True,
        doc="Whether a broker that stops hands its leaderships over first.",
    )
    controlled_shutdown_max_retries = setting(
        "controlled.shutdown.max.retries", int, default=3, doc="How often the hand-over is tried."
    )
    controlled_shutdown_retry_backoff_ms = setting(
        "controlled.shutdown.retry.backoff.ms",
        LONG,
        default=5000,
        unit="ms",
        doc="How long to wait between two tries of the hand-over.",
    )
    controller_socket_timeout_ms = setting(
        "controller.socket.timeout.ms",
        int,
        default=30_000,
        unit="ms",
        doc="How long the controller waits for a broker's answer.",
    )
    auto_leader_rebalance_enable = setting(
        "auto.leader.rebalance.enable",
        bool,
        default=True,
        importance="high",
        doc="Whether leaderships go back to the preferred replicas by themselves.",
    )
    leader_imbalance_check_interval_seconds = setting(
        "leader.imbalance.check.interval.seconds",
        LONG,
        default=300,
        at_least=1,
        unit="seconds",
        importance="high",
        doc="How often the balance of leaderships is looked at.",
    )
    leader_imbalance_per_broker_percentage = setting(
        "leader.imbalance.per.broker.percentage",
        int,
        default=10,
        importance="high",
        doc="Which share of a broker's leaderships may be away from their preferred replicas, in percent.",
    )

    # --- topics ---

    num_partitions = setting(
        "num.partitions", int, default=1, at_least=1, doc="How many partitions a topic gets when nobody says."
    )
    default_replication_factor = setting(
        "default.replication.factor", int, default=1, doc="How many replicas a topic gets when nobody says."
    )
    auto_create_topics_enable = setting(
        "auto.create.topics.enable",
        bool,
        default=True,
        importance="high",
        doc="Whether a topic that a client asks for is made when it is not there.",
    )
    delete_topic_enable = setting(
        "delete.topic.enable", bool, default=True, importance="high", doc="Whether topics can be deleted."
    )
    create_topic_policy_class_name = setting(
        "create.topic.policy.class.name",
        CALLABLE,
        default=None,
        importance="low",
        names={},
        no_effect=POLICIES,
        doc="What decides whether a topic may be created as asked.",
    )
    alter_config_policy_class_name = setting(
        "alter.config.policy.class.name",
        CALLABLE,
        default=None,
        importance="low",
        names={},
        no_effect=POLICIES,
        doc="What decides whether settings may be changed as asked.",
    )
