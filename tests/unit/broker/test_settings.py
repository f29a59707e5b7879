"""Broker settings against Apache Kafka's own table, and the rules between them."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.settings import BrokerSettings, Endpoint
from ottla.broker.settings.endpoints import advertise, is_loopback, parse_address, parse_listeners, parse_protocol_map
from ottla.broker.settings.listeners import parse_connection_overrides
from ottla.broker.settings.without_effect import warnings
from ottla.errors import InvalidSetting, UnknownSetting
from ottla.settings import Source
from ottla.storage.settings import TopicSettings

GOLDEN = Path(__file__).parents[2] / "golden" / "settings" / "broker.tsv"
KAFKA = {line.split("\t")[1]: line.split("\t") for line in GOLDEN.read_text().splitlines() if not line.startswith("#")}
OURS = {each.name: each for each in BrokerSettings.declared()}

# Where we differ on purpose: promise 2 of the package.
OTHER_DEFAULT = {
    *("listeners", "log.dir", "node.id", "process.roles", "controller.listener.names"),
    *("metric.reporters", "principal.builder.class"),
    *("socket.send.buffer.bytes", "socket.receive.buffer.bytes", "queued.max.request.bytes"),
    *("sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class"),
}
# Kafka takes these as they come and fails later, or has no bound because it reads the text elsewhere.
STRICTER = {
    *("broker.id", "node.id", "socket.send.buffer.bytes", "socket.receive.buffer.bytes"),
    "group.initial.rebalance.delay.ms",
}
WITHOUT_KAFKA = {"leader.replication.throttled.rate", "follower.replication.throttled.rate"} | {
    *("replica.alter.log.dirs.io.max.bytes.per.second", "super.users", "allow.everyone.if.no.acl.found"),
}
NOT_OURS = re.compile(r"remote\.|log\.local\.|zookeeper\.metadata\.migration|internal\.")
SHARED = sorted(OURS.keys() & KAFKA.keys())


def test_every_public_setting_of_kafka_4_3_is_known_except_tiered_storage():
    public = {name for name, row in KAFKA.items() if row[0] == "4.3" and row[7] != "internal"}
    missing = {name for name in public - OURS.keys() if not NOT_OURS.match(name)}
    assert missing == {"follower.fetch.last.tiered.offset.enable"}


def test_what_kafka_does_not_have_says_so_in_its_name():
    assert {name for name in OURS.keys() - KAFKA.keys() if not name.startswith("ottla.")} == WITHOUT_KAFKA


def test_types_importance_and_modes_are_kafkas():
    ours = {name: (OURS[name].kind.name, OURS[name].importance.upper(), _mode(name)) for name in SHARED}
    assert ours == {name: (KAFKA[name][2], KAFKA[name][5], KAFKA[name][6]) for name in SHARED}


def _mode(name):
    return OURS[name].dynamic or "read-only"


def test_defaults_are_kafkas():
    names = [name for name in SHARED if name not in OTHER_DEFAULT]
    assert {name: _default(name) for name in names} == {name: _kafka_default(name) for name in names}


def _default(name):
    value = OURS[name].default
    return "-" if value is None else value if isinstance(value, float) else OURS[name].text(value)


def _kafka_default(name):
    return float(KAFKA[name][3]) if KAFKA[name][2] == "DOUBLE" else KAFKA[name][3]


def test_bounds_are_kafkas():
    names = [name for name in SHARED if name not in STRICTER]
    assert {name: (OURS[name].at_least, OURS[name].at_most) for name in names} == {
        name: _kafka_bounds(name) for name in names
    }


def _kafka_bounds(name):
    if name == "compression.gzip.level":
        return (-1, 9)  # [1,...,9] or -1, checked in two steps
    found = re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\]", KAFKA[name][4])
    return (None, None) if found is None else tuple(None if each is None else float(each) for each in found.groups())


def test_choices_are_kafkas():
    for name in SHARED:
        found = re.fullmatch(r"\[([A-Za-z_, ]+)\]", KAFKA[name][4])
        if found is not None:
            assert set(OURS[name].one_of) == {each.strip() for each in found[1].split(",")}, name


def test_every_setting_has_one_sentence_of_its_own():
    for name, each in OURS.items():
        assert each.doc.endswith("."), name
        assert len(each.doc) < 300, name


def test_a_broker_that_sets_nothing_gives_topics_their_defaults():
    settings = BrokerSettings()
    assert settings.topic_defaults() == TopicSettings()
    assert TopicSettings.from_broker(settings.as_dict()) == TopicSettings()


def test_topics_get_what_the_broker_sets_in_any_unit():
    settings = BrokerSettings({"log.retention.hours": "2", "log.segment.bytes": "2097152", "num.partitions": "3"})
    assert settings.topic_defaults().retention_ms == 7_200_000
    assert settings.topic_defaults().segment_bytes == 2_097_152
    assert BrokerSettings({"log.retention.hours": "2", "log.retention.minutes": "5"}).topic_defaults().retention_ms == (
        300_000
    )


def test_a_bad_default_for_topics_is_found_at_the_start():
    with pytest.raises(InvalidSetting, match=r"min\.compaction\.lag\.ms"):
        BrokerSettings({"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "5"})


# --- names ---------------------------------------------------------------------------------------------------------


def test_an_unknown_name_comes_with_the_nearest():
    with pytest.raises(UnknownSetting, match=r"'num\.partition' \(did you mean 'num\.partitions'\?\)"):
        BrokerSettings({"num.partition": "3"})


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("remote.log.storage.system.enable", "remote storage"),
        ("log.message.format.version", "given it up"),
        ("advertised.host.name", "use advertised.listeners"),
    ],
)
def test_names_of_the_past_and_of_others_are_explained(key, sentence):
    with pytest.raises(UnknownSetting, match=sentence):
        BrokerSettings({key: "x"})


def test_both_names_of_the_broker_id_mean_the_same():
    assert BrokerSettings().wanted_id is None
    assert BrokerSettings({"broker.id": "3"}).wanted_id == 3
    assert BrokerSettings({"node.id": "3", "broker.id": "3"}).wanted_id == 3
    with pytest.raises(InvalidSetting, match="the same thing"):
        BrokerSettings({"node.id": "3", "broker.id": "4"})


def test_a_broker_without_an_id_does_not_start_where_none_may_be_generated():
    with pytest.raises(InvalidSetting, match="give the broker its id"):
        BrokerSettings({"broker.id.generation.enable": "false"})
    assert BrokerSettings({"broker.id.generation.enable": "false", "node.id": "3"}).wanted_id == 3


def test_layers_lie_over_each_other_by_setting_not_by_spelling():
    settings = BrokerSettings.layered({"num.partitions": "1", "broker.id": "7"}, {"num.partitions": "2"})
    assert (settings.num_partitions, settings.wanted_id) == (2, 7)


def test_a_broker_of_its_own_has_one_replica_of_internal_topics_and_a_cluster_three():
    alone = BrokerSettings()
    assert (alone.offsets_topic_replication_factor, alone.transaction_state_log_min_isr) == (1, 1)
    assert alone.source("offsets.topic.replication.factor") is Source.DEFAULT
    clustered = BrokerSettings({"zookeeper.connect": "localhost:2181"})
    assert (clustered.offsets_topic_replication_factor, clustered.transaction_state_log_min_isr) == (3, 2)
    assert alone.replaced({"zookeeper.connect": "localhost:2181"}).offsets_topic_replication_factor == 3
    assert BrokerSettings({"offsets.topic.replication.factor": "2"}).offsets_topic_replication_factor == 2


def test_directories_are_expanded_and_named_once():
    assert BrokerSettings().data_directories == (Path.home() / ".local/share/ottla",)
    assert BrokerSettings({"log.dir": "/x", "log.dirs": "/a, /b"}).data_directories == (Path("/a"), Path("/b"))
    with pytest.raises(InvalidSetting, match="twice"):
        BrokerSettings({"log.dirs": "/a,/a"})


def test_secrets_are_not_printed():
    settings = BrokerSettings(
        {"listener.name.plaintext.ssl.key.password": "hunter2", "ssl.keystore.password": "hunter3"}
    )
    assert "hunter" not in repr(settings)
    assert "hunter" not in str(settings.as_dict())
    assert settings.for_listener("PLAINTEXT").ssl_key_password.value == "hunter2"


# --- listeners -----------------------------------------------------------------------------------------------------


def test_endpoints_are_read_with_names_ports_and_ipv6():
    settings = BrokerSettings(
        {
            "listeners": "CLIENTS://localhost:9092,SIX://[::1]:9093",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,six:plaintext",
        }
    )
    assert settings.endpoints == (
        Endpoint("CLIENTS", "PLAINTEXT", "localhost", 9092),
        Endpoint("SIX", "PLAINTEXT", "::1", 9093),
    )
    assert [str(each) for each in settings.endpoints] == ["CLIENTS://localhost:9092", "SIX://[::1]:9093"]
    assert settings.inter_broker_listener.name == "CLIENTS"


@pytest.mark.parametrize(
    ("listeners", "sentence"),
    [
        ("", "listeners is empty"),
        ("127.0.0.1:9092", "write NAME://host:port"),
        ("PLAINTEXT://127.0.0.1", "write NAME://host:port"),
        ("PLAINTEXT://::1:9092", "in brackets"),
        ("PLAINTEXT://127.0.0.1:99999", "write NAME://host:port"),
        ("OTHER://127.0.0.1:9092", "which protocol OTHER speaks"),
        ("PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2", "may come once"),
        ("PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9092", "same port"),
    ],
)
def test_a_listener_that_cannot_be_is_refused_with_what_to_write(listeners, sentence):
    with pytest.raises(InvalidSetting, match=re.escape(sentence)):
        BrokerSettings({"listeners": listeners})


def test_an_ipv4_and_an_ipv6_listener_may_share_a_port_and_free_ports_are_not_the_same():
    protocols = parse_protocol_map("A:PLAINTEXT,B:PLAINTEXT")
    assert len(parse_listeners("listeners", ["A://127.0.0.1:9092", "B://[::1]:9092"], protocols)) == 2
    assert len(parse_listeners("listeners", ["A://127.0.0.1:0", "B://127.0.0.1:0"], protocols)) == 2


@pytest.mark.parametrize("text", ["A", "A:", ":PLAINTEXT", "A:TLS", "A:SSL,a:SSL"])
def test_a_protocol_map_that_cannot_be_read_is_refused(text):
    with pytest.raises(InvalidSetting, match=r"listener\.security\.protocol\.map"):
        parse_protocol_map(text)


@pytest.mark.parametrize(
    "listeners",
    [
        "PLAINTEXT://:9092",
        "PLAINTEXT://10.0.0.1:9092",
        "PLAINTEXT://my-host:9092",
        "SSL://10.0.0.1:1",
        "SASL_PLAINTEXT://10.0.0.1:1",
    ],
)
def test_an_open_door_must_be_asked_for_in_words(listeners):
    values = {"listeners": listeners, "security.inter.broker.protocol": listeners.partition(":")[0]}
    with pytest.raises(InvalidSetting, match=r"ottla\.allow\.insecure\.listeners=true"):
        BrokerSettings(values)
    assert BrokerSettings({**values, "ottla.allow.insecure.listeners": "true"}).endpoints


@pytest.mark.parametrize(
    "values",
    [
        {"listeners": "SASL_SSL://10.0.0.1:9092"},
        {"listeners": "SSL://10.0.0.1:9092", "ssl.client.auth": "required"},
        {"listeners": "SSL://10.0.0.1:9092", "listener.name.ssl.ssl.client.auth": "required"},
        {"listeners": "PLAINTEXT://localhost:9092"},
        {"listeners": "PLAINTEXT://127.8.9.1:9092"},
        {"listeners": "PLAINTEXT://[::1]:9092"},
    ],
)
def test_a_guarded_or_local_door_is_let_in(values):
    assert BrokerSettings(values).endpoints


def test_the_admin_listener_must_be_local_too():
    with pytest.raises(InvalidSetting, match=r"ottla\.admin\.listener"):
        BrokerSettings({"ottla.admin.listener": "0.0.0.0:9644"})
    assert BrokerSettings({"ottla.admin.listener": ""}).admin_address is None
    assert BrokerSettings({"ottla.admin.listener": "[::1]:0"}).admin_address == ("::1", 0)
    with pytest.raises(InvalidSetting, match="write host:port"):
        parse_address("ottla.admin.listener", "9644")


def test_what_is_advertised_can_be_connected_to():
    every = {"listeners": "PLAINTEXT://0.0.0.0:9092", "ottla.allow.insecure.listeners": "true"}
    with pytest.raises(InvalidSetting, match=r"set advertised\.listeners to what clients"):
        BrokerSettings(every)
    with pytest.raises(InvalidSetting, match="no client can connect to"):
        BrokerSettings({**every, "advertised.listeners": "PLAINTEXT://0.0.0.0:9092"})
    with pytest.raises(InvalidSetting, match="listeners has no SSL"):
        BrokerSettings({**every, "advertised.listeners": "SSL://me:9092"})
    settings = BrokerSettings({**every, "advertised.listeners": "PLAINTEXT://me:19092"})
    assert settings.advertised_endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "me", 19092),)


def test_advertised_ports_and_hosts_are_filled_in_once_bound():
    told = (Endpoint("A", "PLAINTEXT", "", 0), Endpoint("B", "PLAINTEXT", "b", 1))
    bound = (Endpoint("A", "PLAINTEXT", "", 40000), Endpoint("B", "PLAINTEXT", "", 2))
    assert [each.address for each in advertise(told, bound, "me")] == ["me:40000", "b:1"]


def test_brokers_must_be_told_a_listener_that_exists():
    clustered = {"zookeeper.connect": "localhost:2181", "listener.security.protocol.map": "A:PLAINTEXT"}
    with pytest.raises(InvalidSetting, match=r"set inter\.broker\.listener\.name"):
        BrokerSettings({**clustered, "listeners": "A://127.0.0.1:9092"})
    with pytest.raises(InvalidSetting, match="not both"):
        BrokerSettings({"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"})


COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
}


def test_a_node_of_both_roles_opens_the_listeners_of_brokers_and_of_controllers():
    settings = BrokerSettings(COMBINED)
    assert [each.name for each in settings.endpoints] == ["PLAINTEXT"]
    assert [each.name for each in settings.controller_listeners] == ["CONTROLLER"]
    assert [each.address for each in settings.controller_endpoints] == ["localhost:9093"]
    assert warnings(settings) == []
    assert (settings.is_controller, settings.is_under_controllers, settings.is_alone) == (True, True, False)


def test_a_controller_that_is_no_broker_opens_nothing_for_clients():
    settings = BrokerSettings({**COMBINED, **CONTROLLER_ALONE})
    assert settings.endpoints == ()
    assert (settings.is_only_controller, settings.is_controller) == (True, True)
    assert settings.inter_broker_listener.name == "CONTROLLER"


CONTROLLER_ALONE = {
    "process.roles": "controller",
    "listeners": "CONTROLLER://localhost:9093",
    "advertised.listeners": "CONTROLLER://localhost:9093",
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"listeners": "PLAINTEXT://localhost:9092", "controller.quorum.voters": "1@a:1,2@b:1"}, "needs a listener"),
        ({"process.roles": "controller", "listeners": "PLAINTEXT://localhost:9092"}, "needs a listener"),
        ({"process.roles": "controller"}, "which only a broker opens"),
        ({"controller.quorum.voters": "2@a:1,3@b:1"}, "node.id=1 is no voter"),
        ({**CONTROLLER_ALONE, "node.id": None}, "needs node.id"),
        ({"zookeeper.connect": "localhost:2181"}, "both say where the truth"),
    ],
)
def test_a_controller_says_what_it_lacks(change: dict[str, str | None], words: str) -> None:
    values = {name: value for name, value in {**COMBINED, **change}.items() if value is not None}
    with pytest.raises(InvalidSetting, match=words):
        BrokerSettings(values)


def test_a_controller_listener_that_others_reach_asks_for_a_login():
    listeners = "PLAINTEXT://localhost:9092,CONTROLLER://:9093"
    with pytest.raises(InvalidSetting, match=r"CONTROLLER.*can be reached from other machines"):
        BrokerSettings({**COMBINED, "listeners": listeners})


UNDER_CONTROLLERS = {
    "process.roles": "broker",
    "node.id": "11",
    "controller.quorum.bootstrap.servers": "one:9093,two:9093",
    "controller.listener.names": "CONTROLLER",
}


def test_a_broker_under_controllers_knows_where_they_are():
    settings = BrokerSettings({**UNDER_CONTROLLERS, "controller.quorum.voters": "1@one:9093,2@three:9093"})
    assert not settings.is_alone
    assert settings.is_under_controllers
    assert settings.quorum_addresses == (("one", 9093), ("two", 9093), ("three", 9093))
    assert settings.controller_listener.name == "CONTROLLER"
    assert settings.metadata_directory == settings.data_directories[0]
    assert settings.offsets_topic_replication_factor == 3, "as in Kafka: it is not alone"
    assert warnings(settings) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"node.id": None}, "needs node.id"),
        ({"controller.listener.names": None}, "needs controller.listener.names"),
        ({"controller.quorum.bootstrap.servers": None}, "needs controller.quorum.bootstrap.servers"),
        ({"controller.quorum.bootstrap.servers": "one"}, "has no port"),
        ({"controller.quorum.voters": "one:9093"}, "write id@host:port"),
        ({"controller.quorum.voters": "11@one:9093"}, "an id of its own"),
        ({"zookeeper.connect": "localhost:2181"}, "both say where the truth"),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"},
            "which a broker does not open",
        ),
    ],
)
def test_what_a_broker_under_controllers_must_say_is_asked_for(changed: dict[str, str | None], words: str) -> None:
    given = {**UNDER_CONTROLLERS, **changed}
    with pytest.raises(InvalidSetting, match=words):
        BrokerSettings({name: value for name, value in given.items() if value is not None})


def test_a_listeners_own_values_win_and_a_mechanisms_win_over_them():
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    everybody, mine, scram = (f"{module} username={name} password=x;" for name in ("everybody", "mine", "scram"))
    settings = BrokerSettings(
        {
            "sasl.jaas.config": everybody,
            "listener.name.PLAINTEXT.sasl.jaas.config": mine,
            "listener.name.plaintext.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.plaintext.max.connections": "5",
        }
    )
    assert settings.sasl_jaas_config.value == everybody
    assert settings.for_listener("PLAINTEXT").sasl_jaas_config.value == mine
    assert settings.for_listener("PLAINTEXT", "SCRAM-SHA-256").sasl_jaas_config.value == scram
    assert (settings.max_connections, settings.for_listener("PLAINTEXT").max_connections) == (2**31 - 1, 5)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("listener.name.plaintext.ssl.nothing", "there is no setting 'ssl.nothing'"),
        ("listener.name.plaintext.log.dirs", "cannot be set for one listener"),
        ("listener.name.plaintext.plain.log.dirs", "there is no setting"),
        ("listener.name.other.max.connections", "there is no listener OTHER"),
    ],
)
def test_a_listeners_key_is_checked_by_its_setting_and_its_listener(key, sentence):
    with pytest.raises((InvalidSetting, UnknownSetting), match=re.escape(sentence)):
        BrokerSettings({key: "1"})


def test_a_listeners_value_is_checked_and_named_as_written():
    with pytest.raises(InvalidSetting, match=r"listener\.name\.plaintext\.max\.connections='-1'"):
        BrokerSettings({"listener.name.plaintext.max.connections": "-1"})


@given(st.text(max_size=40))
def test_any_listener_text_is_read_or_refused(text):
    try:
        endpoints = parse_listeners("listeners", [text], parse_protocol_map("PLAINTEXT:PLAINTEXT"))
    except InvalidSetting:
        return
    assert all(0 <= each.port <= 65535 for each in endpoints)


@given(st.ip_addresses())
def test_an_endpoint_reads_back_what_it_prints(address):
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", str(address), 9092)
    assert parse_listeners("listeners", [str(endpoint)], {"PLAINTEXT": "PLAINTEXT"}) == (endpoint,)
    assert is_loopback(str(address)) == address.is_loopback


def test_limits_of_single_addresses_are_read_or_refused():
    assert parse_connection_overrides("10.0.0.1:5, my-host:0,[::1]:7") == {"10.0.0.1": 5, "my-host": 0, "::1": 7}
    assert parse_connection_overrides("") == {}
    for text in ("10.0.0.1", "a:b", ":5", "a:-1"):
        with pytest.raises(InvalidSetting, match="is not name:count"):
            BrokerSettings({"max.connections.per.ip.overrides": text})


def test_the_memory_for_requests_is_bounded_by_default_and_may_be_less_than_the_largest_request():
    """The largest one goes on alone (large_frames.py); Kafka refuses such a file, and has no limit by default."""
    assert BrokerSettings({}).queued_max_request_bytes == 64 * 1024 * 1024
    assert BrokerSettings({"queued.max.request.bytes": 1000}).queued_max_request_bytes == 1000


def test_directories_that_get_no_new_partitions_are_some_of_the_data_directories():
    given = {"log.dirs": "/one,/two"}
    assert BrokerSettings({**given, "cordoned.log.dirs": "/two"}).cordoned_directories == (Path("/two"),)
    assert BrokerSettings({**given, "cordoned.log.dirs": "*"}).cordoned_directories == (Path("/one"), Path("/two"))
    with pytest.raises(InvalidSetting, match="/three, which"):
        BrokerSettings({**given, "cordoned.log.dirs": "/three"})
