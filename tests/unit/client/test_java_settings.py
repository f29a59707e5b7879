"""Files made for Java's clients: what means nothing here is told in one line, what nobody knows is refused."""

import logging

import pytest

from ottla.client import java_settings
from ottla.client.admin.settings import AdminSettings
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.producer.settings import ProducerSettings
from ottla.errors import InvalidSetting, UnknownSetting

SERVERS = {"bootstrap.servers": "a:1"}


@pytest.fixture(autouse=True)
def nothing_was_said_before(monkeypatch):
    monkeypatch.setattr(java_settings, "_warned", set())


def test_what_java_knows_and_we_do_not_need_is_one_warning(caplog):
    file = {**SERVERS, "metric.reporters": "x", "sasl.login.refresh.window.factor": "0.8", "client.id": "me"}
    with caplog.at_level(logging.WARNING):
        assert AdminSettings(file).client_id == "me"
        AdminSettings(file)
    assert [record.getMessage() for record in caplog.records] == [
        "settings of Java's clients that have no effect here: metric.reporters, sasl.login.refresh.window.factor"
    ]


def test_one_file_serves_producers_consumers_and_tools(caplog):
    file = {**SERVERS, "acks": "all", "group.id": "billing"}
    assert ProducerSettings(file).acks == "all"
    assert ConsumerSettings(file).group_id == "billing"
    AdminSettings(file)
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "group.id",
        "acks",
        "acks, group.id",
    ]


def test_names_of_java_classes_are_told_and_passed_over_unless_we_have_one_of_that_name(caplog):
    file = {
        **SERVERS,
        "interceptor.classes": "io.confluent.monitoring.clients.interceptor.MonitoringConsumerInterceptor",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
    }
    settings = ConsumerSettings(file)
    assert settings.partition_assignment_strategy == ("range",)
    assert settings.interceptor_classes == ()
    (record,) = caplog.records
    assert record.getMessage().endswith(": interceptor.classes")


def test_what_nobody_knows_is_refused_and_so_is_a_value_that_is_looked_up_elsewhere():
    with pytest.raises(UnknownSetting, match=r"metric\.reporter'"):
        AdminSettings({**SERVERS, "metric.reporter": "x"})
    with pytest.raises(UnknownSetting, match=r"config\.providers"):
        AdminSettings({**SERVERS, "config.providers": "file"})


def test_a_keyword_is_never_passed_over():
    with pytest.raises(UnknownSetting):
        ProducerSettings(bootstrap_servers="a:1", group_id="billing")


def test_a_class_where_a_number_belongs_is_refused():
    with pytest.raises(InvalidSetting, match=r"linger\.ms"):
        ProducerSettings({**SERVERS, "linger.ms": "five"})


def test_passwords_are_never_taken_for_classes():
    settings = AdminSettings({**SERVERS, "sasl.jaas.config": "org.apache.kafka.Module"})
    assert settings.sasl_jaas_config.value == "org.apache.kafka.Module"
