"""Which token a query logs in with, and that nothing else of a login travels with it."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from ottla.spark.option_table import InvalidOption
from ottla.spark.sink.options import SinkOptions
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import OffsetRange, ReadTask, with_logins
from ottla.spark.tokens.handout import HandedToken, login_for, with_login

JAAS = 'ScramLoginModule required tokenauth="true" username="id" password="aG1hYw==";'
TOKEN = HandedToken("main", r"kafka\d*:9094", "SASL_SSL", "SCRAM-SHA-512", JAAS)
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}
SERVERS = {"bootstrap.servers": "kafka1:9094,kafka2:9094"}


def test_brokers_that_match_are_logged_in_at_with_the_token() -> None:
    assert login_for(SERVERS, [TOKEN]) == LOGIN
    assert login_for({"bootstrap.servers": "elsewhere:1, kafka:9094"}, [TOKEN]) == LOGIN


def test_other_brokers_are_not() -> None:
    assert login_for({"bootstrap.servers": "elsewhere:9094"}, [TOKEN]) == {}
    assert login_for({"bootstrap.servers": "kafka:90945"}, [TOKEN]) == {}
    assert login_for(SERVERS, []) == {}


def test_the_query_says_by_which_protocol() -> None:
    said = {**SERVERS, "security.protocol": "SASL_PLAINTEXT"}
    assert login_for(said, [TOKEN]) == {**LOGIN, "security.protocol": "SASL_PLAINTEXT"}
    assert login_for({**SERVERS, "security.protocol": "SSL"}, [TOKEN]) == {}


def test_two_tokens_for_one_broker_are_refused() -> None:
    with pytest.raises(InvalidOption, match="main, other"):
        login_for(SERVERS, [TOKEN, replace(TOKEN, cluster="other", pattern=".*")])


@pytest.mark.parametrize(
    "name", ["sasl.jaas.config", "sasl.password", "sasl.username", "sasl_plain_password", "sasl.plain.username"]
)
def test_a_login_beside_the_token_is_refused_without_showing_it(name: str) -> None:
    with pytest.raises(InvalidOption, match="travel to the executors") as refused:
        login_for({**SERVERS, name: "pencil"}, [TOKEN])
    assert "pencil" not in str(refused.value)


def test_the_clients_of_a_query_log_in_with_the_token() -> None:
    source = SourceOptions.parse({"kafka.bootstrap.servers": "kafka:9094", "subscribe": "t"}, streaming=True)
    sink = SinkOptions.parse({"kafka.bootstrap.servers": "kafka:9094", "topic": "t"}, streaming=True)
    for settings in (
        replace(source, login=LOGIN).client_settings("admin"),
        replace(source, login=LOGIN).client_settings("consumer"),
        replace(sink, login=LOGIN).client_settings("admin"),
        replace(sink, login=LOGIN).transaction_settings("id"),
    ):
        assert LOGIN.items() <= settings.items()
    assert "aG1hYw" not in repr(replace(source, login=LOGIN)) + repr(replace(sink, login=LOGIN)) + repr(TOKEN)


def test_without_a_job_there_are_no_tokens() -> None:
    source = SourceOptions.parse({"kafka.bootstrap.servers": "kafka:9094", "subscribe": "t"}, streaming=True)
    assert with_login(source) == source


def test_a_task_carries_its_login_and_does_not_show_it() -> None:
    (task,) = with_logins([ReadTask((OffsetRange("t", 0, 0, 1),))], LOGIN)
    assert pickle.loads(pickle.dumps(task)).login == LOGIN
    assert "aG1hYw" not in repr(task)
    assert task.ranges == (OffsetRange("t", 0, 0, 1),)
