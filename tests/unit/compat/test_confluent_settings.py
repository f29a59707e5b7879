"""Every setting of librdkafka, compared with the installed librdkafka: names, kinds, bounds, refusals, warnings."""

import logging

import confluent_kafka
import pytest
from tests.unit.compat import librdkafka

from ottla.client.admin.settings import AdminSettings
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.producer.settings import ProducerSettings
from ottla.compat.confluent_kafka import Consumer, KafkaException, Producer, producer
from ottla.compat.confluent_kafka import settings as our_settings
from ottla.compat.confluent_kafka.properties import DEPRECATED, properties
from ottla.compat.confluent_kafka.property_values import parse
from ottla.compat.confluent_kafka.settings import configure

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
NOT_IN_ITS_TABLE = {"client.software.name", "client.software.version"}
PROBES = (
    "", "abc", "True", "FALSE", "1", "0", "t", "F", "yes", "-5", "99999999999", "1.5", " 5", "5 ", "0x10", "010", "all",
    "1e3", "-", "+7", None,
)  # fmt: skip
DEFAULTS = {"producer": producer.DEFAULTS, "consumer": {}}
SETTINGS = {"producer": ProducerSettings, "consumer": ConsumerSettings}


@pytest.fixture(scope="module")
def its_table(tmp_path_factory):
    return librdkafka.table(tmp_path_factory.mktemp("librdkafka") / "table.md")


def our_refusal(name, value):
    try:
        parse(name, value)
    except KafkaException as error:
        return error.args[0].str()
    return None


def test_every_property_is_there_for_the_same_clients_with_the_same_values(its_table):
    assert len(its_table) > 180
    ours = properties()
    assert set(ours) - NOT_IN_ITS_TABLE == set(its_table)
    for name, (scope, kind, values) in its_table.items():
        assert (ours[name].scope, ours[name].kind) == (scope, kind), name
        if kind in ("int", "float"):
            assert "{} .. {}".format(*ours[name].bounds) == values, name
        elif kind in ("enum", "flags") and values:
            assert ", ".join(ours[name].choices) == values, name


def test_every_property_takes_and_refuses_the_same_values_with_the_same_words(its_table):
    for name, (_, kind, values) in its_table.items():
        if name == "plugin.library.paths":
            continue
        probes = list(PROBES)
        if kind in ("int", "float"):
            low, high = values.split(" .. ")
            probes += [low, high, str(int(low) - 1), str(int(high) + 1)]
        elif values and kind in ("enum", "flags"):
            probes += [values.split(", ")[0].upper(), values, values[:-1], *values.split(", ")]
        for probe in probes:
            assert our_refusal(name, probe) == librdkafka.refusal(name, probe), (name, probe)
    assert librdkafka.refusal("no.such", "1") == our_refusal("no.such", "1")
    assert librdkafka.refusal("plugin.library.paths", "abc").startswith("dlopen() failed")
    assert our_refusal("plugin.library.paths", "abc").startswith("dlopen() failed")


def test_every_property_that_has_a_meaning_here_names_a_setting_of_ours():
    known = {each.name for kind in (ProducerSettings, ConsumerSettings, AdminSettings) for each in kind.declared()}
    for each in properties().values():
        assert each.ours is None or each.ours in known, each
        assert each.alias_of is None or each.alias_of in properties(), each


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_our_client_takes_every_property_alone(kind, its_table):
    """With librdkafka's own bounds, and the group that a consumer needs."""
    for name, (_, value_kind, values) in its_table.items():
        if value_kind == "api" or name in ("ssl.ca.certificate.stores", "plugin.library.paths", "builtin.features"):
            continue
        for value in probes_that_fit(name, value_kind, values):
            conf = {**SERVERS, "group.id": "g", name: value}
            if kind == "producer":
                conf = {**SERVERS, name: value}
            ours = read_or_refused(kind, conf)
            if isinstance(ours, str):
                assert made_by_its_library(kind, conf) == ours, (name, value)
            else:
                SETTINGS[kind](DEFAULTS[kind] | ours)


def read_or_refused(kind, conf):
    try:
        return configure(kind, conf, {}, SETTINGS[kind]).ours
    except KafkaException as error:
        return error.args[0].str()


def probes_that_fit(name, kind, values):
    if kind in ("int", "float"):
        return values.split(" .. ") if name != "request.required.acks" and name != "acks" else ["-1", "0", "1", "all"]
    if kind in ("enum", "flags"):
        return values.split(", ")
    if kind == "bool":
        return [True, False]
    if name == "partition.assignment.strategy":
        return ["range", "roundrobin,range", "cooperative-sticky"]
    return {"partitioner": ["murmur2"], "bootstrap.servers": ["a:1"], "metadata.broker.list": ["a:1"]}.get(name, ["x1"])


def made_by_its_library(kind, conf):
    made = confluent_kafka.Producer if kind == "producer" else confluent_kafka.Consumer
    try:
        made(conf, logger=logging.getLogger("quiet"))
    except confluent_kafka.KafkaException as error:
        return error.args[0].str()
    return None


RULES = [
    ("producer", {"foo": 1}),
    ("producer", {"linger.ms": True}),
    ("producer", {5: 5}),
    ("producer", {"dr_cb": print}),
    ("producer", {"on_commit": print}),
    ("producer", {"on_delivery": 5}),
    ("producer", {"topic.blacklist": "^["}),
    ("producer", {"message.timeout.ms": 1, "linger.ms": 5}),
    ("producer", {"transactional.id": "x", "message.timeout.ms": 100000, "transaction.timeout.ms": 1000}),
    ("producer", {"enable.idempotence": True, "acks": 1}),
    ("producer", {"enable.idempotence": True, "max.in.flight": 6}),
    ("producer", {"enable.idempotence": True, "retries": 0}),
    ("producer", {"enable.idempotence": True, "queuing.strategy": "lifo"}),
    ("producer", {"transactional.id": "x", "enable.idempotence": False}),
    ("producer", {"enable.gapless.guarantee": True}),
    ("producer", {"reconnect.backoff.ms": 500, "reconnect.backoff.max.ms": 3}),
    ("producer", {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"}),
    ("producer", {"compression.codec": "inherit"}),
    ("consumer", {"on_commit": 5}),
    ("consumer", {"on_delivery": print}),
    ("consumer", {"session.timeout.ms": 400000}),
    ("consumer", {"max.poll.interval.ms": 1000}),
    ("consumer", {"group.protocol": "consumer", "session.timeout.ms": 5000}),
    ("consumer", {"group.protocol": "consumer", "partition.assignment.strategy": "range"}),
    ("consumer", {"group.protocol": "consumer", "heartbeat.interval.ms": 3}),
    ("consumer", {"group.protocol": "consumer", "group.protocol.type": "x"}),
    ("consumer", {"fetch.max.bytes": 1000}),
    ("consumer", {"receive.message.max.bytes": 1000}),
    ("consumer", {"partition.assignment.strategy": "abc"}),
    ("consumer", {"partition.assignment.strategy": "range,cooperative-sticky"}),
]


@pytest.mark.parametrize(("kind", "conf"), RULES, ids=[f"{kind}-{'-'.join(map(str, conf))}" for kind, conf in RULES])
def test_what_does_not_go_together_is_refused_with_the_same_words(kind, conf):
    whole = {**SERVERS, **({"group.id": "g"} if kind == "consumer" else {}), **conf}
    theirs = made_by_its_library(kind, whole)
    assert theirs is not None
    with pytest.raises(KafkaException) as raised:
        (Producer if kind == "producer" else Consumer)(whole)
    assert raised.value.args[0].str() == theirs
    assert raised.value.args[0].code() == confluent_kafka.KafkaError._INVALID_ARG


TYPES = [
    ("Producer", ({**SERVERS, "error_cb": 5},)),
    ("Producer", ({**SERVERS, "error_cb": None},)),
    ("Producer", ({**SERVERS, "stats_cb": "x"},)),
    ("Producer", ({**SERVERS, "throttle_cb": 5},)),
    ("Producer", ({**SERVERS, "oauth_cb": 5},)),
    ("Producer", ({**SERVERS, "delivery.report.only.error": "x"},)),
    ("Producer", ({**SERVERS, "default.topic.config": 5},)),
    ("Producer", ()),
    ("Producer", (5,)),
    ("Consumer", (SERVERS,)),
]


@pytest.mark.parametrize(("name", "arguments"), TYPES, ids=range(len(TYPES)))
def test_wrong_types_raise_the_same_error(name, arguments):
    with pytest.raises((TypeError, ValueError, AttributeError)) as theirs:
        getattr(confluent_kafka, name)(*arguments)
    with pytest.raises(theirs.type) as ours:
        {"Producer": Producer, "Consumer": Consumer}[name](*arguments)
    assert str(ours.value) == str(theirs.value)


class Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def warnings_of(made, conf):
    lines = Lines()
    logger = logging.Logger("lines")
    logger.addHandler(lines)
    client = made(conf, logger=logger)
    client.poll(0.05)
    client.close()
    return [text.partition("]: ")[2] if "CONFWARN [" in text else text for text in lines.texts if "ipv4#" not in text]


def heads(texts):
    """What warns, and of what; the reasons are ours."""
    found = [text.partition(":")[0].replace("deprecatedexperimental", "deprecated") for text in texts]
    return sorted(text for text in found if "onfiguration" in text and "experimental" not in text)


WARNED = [
    ("Producer", {"group.id": "x", "enable.auto.commit": True, "auto.offset.reset": "earliest", "max.poll.records": 3}),
    ("Consumer", {"group.id": "g", "acks": 1, "linger.ms": 3, "retries": 4}),
    ("Producer", {name: "1" for name in DEPRECATED if properties()[name].scope != "C" and name != "queuing.strategy"}),
    ("Producer", {"queuing.strategy": "fifo"}),
    ("Consumer", {"group.id": "g", "offset.store.method": "broker", "auto.commit.enable": True}),
    ("Consumer", {"group.id": "g", "offset.store.path": "x", "offset.store.sync.interval.ms": 3}),
    ("Producer", {"sasl.mechanism": "PLAIN"}),
    ("Producer", {"retry.backoff.ms": 5000}),
]


@pytest.mark.parametrize(("name", "conf"), WARNED, ids=range(len(WARNED)))
def test_the_same_properties_are_warned_of(name, conf):
    whole = {**SERVERS, **conf}
    theirs = warnings_of(getattr(confluent_kafka, name), whole)
    ours = warnings_of({"Producer": Producer, "Consumer": Consumer}[name], whole)
    assert heads(ours) == heads(theirs)
    assert heads(ours)


def test_what_has_no_effect_is_one_line_with_the_reasons_and_only_once(caplog, monkeypatch):
    monkeypatch.setattr(our_settings, "_warned", set())
    conf = {**SERVERS, "socket.nagle.disable": True, "batch.num.messages": 5}
    with caplog.at_level("WARNING"):
        configure("producer", conf, {}, ProducerSettings)
        configure("producer", conf, {}, ProducerSettings)
    (line,) = [each.getMessage() for each in caplog.records]
    assert line.startswith("settings of librdkafka that have no effect here: socket.nagle.disable (")
    assert "batch.num.messages (batches are limited by batch.size)" in line


def ours_of(kind="producer", **conf):
    written = {name.replace("__", "."): value for name, value in conf.items()}
    return configure(kind, {**SERVERS, **written}, {}, SETTINGS[kind]).ours


def test_values_with_a_meaning_of_their_own_keep_it():
    assert ours_of(message__timeout__ms=0)["delivery.timeout.ms"] == 2**31 - 1
    assert ours_of(queue__buffering__max__kbytes=3)["buffer.memory"] == 3072
    assert ours_of(linger__ms=0.5)["linger.ms"] == 1
    assert ours_of(acks="all")["acks"] == "all"
    assert ours_of(connections__max__idle__ms=0)["connections.max.idle.ms"] == -1
    assert ours_of("consumer", group__id="g", auto__offset__reset="smallest")["auto.offset.reset"] == "earliest"
    assert ours_of(topic__metadata__refresh__interval__ms=-1, metadata__max__age__ms=5)["metadata.max.age.ms"] > 2**31
    assert "compression.level" not in ours_of(compression__level=-1)


@pytest.mark.parametrize("limit_ms", [1, 5, 1_000, 29_999, 300_000])
def test_a_record_may_live_shorter_than_a_request_takes(limit_ms):
    settings = ProducerSettings(ours_of(message__timeout__ms=limit_ms))
    assert settings.delivery_limit_ms == limit_ms
    assert settings.request_timeout_ms <= limit_ms


def test_a_token_of_the_program_and_one_without_a_signature():
    asked = []

    def token(config):
        asked.append(config)
        return "text", 5.0, "principal", {}

    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER"}
    conf = {**SERVERS, **sasl, "sasl.oauthbearer.config": "principal=me scope=a lifeSeconds=9"}
    read = configure("producer", {**conf, "oauth_cb": token}, {}, ProducerSettings)
    assert read.ours["sasl.oauthbearer.token.provider"]() == ("text", 5.0)
    assert asked == ["principal=me scope=a lifeSeconds=9"]
    read = configure("producer", {**conf, "enable.sasl.oauthbearer.unsecure.jwt": True}, {}, ProducerSettings)
    assert 'unsecuredLoginStringClaim_sub="me"' in read.ours["sasl.jaas.config"]
    assert 'unsecuredLoginLifetimeSeconds="9"' in read.ours["sasl.jaas.config"]
