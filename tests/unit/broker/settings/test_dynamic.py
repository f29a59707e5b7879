"""Settings that change while running: precedence, refusal, telling, taking back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.dynamic import DynamicSettings, changed
from ottla.errors import InvalidSetting, UnknownSetting


@pytest.fixture
def dynamic():
    return DynamicSettings(BrokerSettings({"max.connections": "10", "log.retention.hours": "24"}))


def test_this_broker_wins_over_all_brokers_over_the_file_over_the_default(dynamic):
    assert dynamic.current.max_connections == 10
    dynamic.replace("cluster-wide", {"max.connections": "20"})
    assert dynamic.current.max_connections == 20
    dynamic.replace("per-broker", {"max.connections": "30"})
    assert dynamic.current.max_connections == 30
    dynamic.replace("cluster-wide", {})
    assert dynamic.current.max_connections == 30
    assert dynamic.replace("per-broker", {}) == {"max.connections"}
    assert dynamic.current.max_connections == 10


def test_what_is_deleted_falls_back_to_the_default(dynamic):
    dynamic.replace("cluster-wide", {"message.max.bytes": "5"})
    assert dynamic.current.topic_defaults().max_message_bytes == 5
    dynamic.replace("cluster-wide", {})
    assert dynamic.current == BrokerSettings({"max.connections": "10", "log.retention.hours": "24"})


def test_only_what_really_changed_is_named(dynamic):
    assert dynamic.replace("cluster-wide", {"max.connections": "10"}) == frozenset()
    assert dynamic.replace("cluster-wide", {"max.connections": "10", "log.retention.ms": "5"}) == {"log.retention.ms"}


def test_a_dynamic_value_in_ms_wins_over_a_static_one_in_hours(dynamic):
    dynamic.replace("cluster-wide", {"log.retention.ms": "1000"})
    assert dynamic.current.topic_defaults().retention_ms == 1000


@pytest.mark.parametrize(
    ("scope", "values", "sentence"),
    [
        ("cluster-wide", {"log.dirs": "/x"}, "cannot change while running"),
        ("per-broker", {"log.retention.hours": "1"}, "cannot change while running"),
        ("cluster-wide", {"listeners": "PLAINTEXT://127.0.0.1:1"}, "each broker's own"),
        ("cluster-wide", {"listener.name.plaintext.max.connections": "1"}, "each broker's own"),
        ("per-broker", {"ssl.keystore.location": "x"}, "write listener.name.<listener>.ssl.keystore.location"),
        ("cluster-wide", {"max.connections": "-1"}, "at least 0"),
        ("per-broker", {"listener.name.other.ssl.keystore.location": "x"}, "no listener OTHER"),
    ],
)
def test_what_kafka_refuses_is_refused_and_nothing_changes(dynamic, scope, values, sentence):
    before = dynamic.current
    for attempt in (dynamic.check, dynamic.replace):
        with pytest.raises(InvalidSetting, match=sentence):
            attempt(scope, values)
    assert dynamic.current is before
    assert dynamic.values(scope) == {}


def test_an_unknown_name_is_refused(dynamic):
    with pytest.raises(UnknownSetting, match=r"max\.connections"):
        dynamic.check("per-broker", {"max.connection": "1"})


def test_check_changes_nothing(dynamic):
    assert dynamic.check("per-broker", {"max.connections": "99"}).max_connections == 99
    assert dynamic.current.max_connections == 10


def test_who_asked_is_told_old_and_new_and_nobody_else(dynamic):
    seen = []
    dynamic.subscribe({"max.connections"}, lambda old, new: seen.append((old.max_connections, new.max_connections)))
    dynamic.subscribe({"num.partitions"}, lambda old, new: pytest.fail("not asked for"))
    dynamic.replace("cluster-wide", {"max.connections": "20"})
    dynamic.replace("cluster-wide", {"max.connections": "20"})
    assert seen == [(10, 20)]


def test_a_change_that_cannot_be_applied_is_taken_back(dynamic):
    seen = []

    def fail(old, new):
        if new.max_connections == 20:
            raise OSError("no room")

    dynamic.subscribe({"max.connections"}, lambda old, new: seen.append(new.max_connections))
    dynamic.subscribe({"max.connections"}, fail)
    with pytest.raises(InvalidSetting, match=r"could not be applied.*max\.connections: no room"):
        dynamic.replace("cluster-wide", {"max.connections": "20"})
    assert seen == [20, 10]
    assert dynamic.current.max_connections == 10
    assert dynamic.values("cluster-wide") == {}


def test_a_change_for_one_listener_goes_by_its_full_name(dynamic):
    key = "listener.name.plaintext.max.connections"
    assert dynamic.replace("per-broker", {key: "3"}) == {key}
    assert dynamic.current.for_listener("PLAINTEXT").max_connections == 3


def test_stored_values_that_no_longer_fit_do_not_stop_the_start(dynamic, caplog):
    dynamic.load({"max.connections": "x", "gone.setting": "1", "message.max.bytes": "7"}, {"log.dirs": "/x"})
    assert dynamic.current.topic_defaults().max_message_bytes == 7
    assert dynamic.values("cluster-wide") == {"message.max.bytes": "7"}
    assert len(caplog.records) == 3


SOME = {
    "max.connections": st.integers(0, 50),
    "message.max.bytes": st.integers(0, 50),
    "min.insync.replicas": st.just(2),
}
LAYER = st.fixed_dictionaries({}, optional=SOME).map(lambda layer: {key: str(each) for key, each in layer.items()})


@given(st.lists(st.tuples(st.sampled_from(["cluster-wide", "per-broker"]), LAYER), max_size=6))
def test_the_settings_are_those_of_the_layers_whatever_came_before(steps):
    dynamic = DynamicSettings(BrokerSettings())
    last = {"cluster-wide": {}, "per-broker": {}}
    for scope, values in steps:
        before = dynamic.current
        names = dynamic.replace(scope, values)
        last[scope] = values
        assert names == changed(before, dynamic.current)
    assert dynamic.current == BrokerSettings({**last["cluster-wide"], **last["per-broker"]})
