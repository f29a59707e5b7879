"""The settings every client has: three dialects, one meaning, secrets unseen."""

from __future__ import annotations

import pytest

from ottla.client.settings import ClientSettings
from ottla.errors import InvalidSetting, UnknownSetting
from ottla.values import Address


def test_the_defaults_are_javas() -> None:
    settings = ClientSettings(bootstrap_servers="a:1")
    assert settings.request_timeout_ms == 30_000
    assert settings.metadata_max_age_ms == 300_000
    assert settings.metadata_recovery_strategy == "rebootstrap"
    assert settings.security_protocol == "PLAINTEXT"


def test_the_words_of_three_libraries_mean_the_same() -> None:
    java = ClientSettings({"bootstrap.servers": "a:1", "ssl.truststore.location": "ca.pem", "sasl.mechanism": "PLAIN"})
    c = ClientSettings({"metadata.broker.list": "a:1", "ssl.ca.location": "ca.pem", "sasl.mechanisms": "plain"})
    python = ClientSettings(bootstrap_servers=["a:1"], ssl_cafile="ca.pem", sasl_mechanism="PLAIN")
    assert java == c == python


def test_a_bootstrap_address_without_a_port_is_refused_with_the_form_to_write() -> None:
    with pytest.raises(InvalidSetting, match="write host:port"):
        ClientSettings(bootstrap_servers="broker")


def test_bootstrap_servers_must_be_given() -> None:
    with pytest.raises(InvalidSetting, match=r"bootstrap\.servers is missing"):
        ClientSettings()


def test_addresses_are_kept_in_order_without_repeats() -> None:
    settings = ClientSettings(bootstrap_servers="b:2,a:1,b:2")
    assert settings.bootstrap_addresses == [Address("b", 2), Address("a", 1)]


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownSetting, match=r"request\.timeout\.ms"):
        ClientSettings({"bootstrap.servers": "a:1", "request.timout.ms": 5})


def test_security_protocol_may_be_written_small() -> None:
    assert ClientSettings(bootstrap_servers="a:1", security_protocol="sasl_ssl").security_protocol == "SASL_SSL"


@pytest.mark.parametrize("key", ["sasl.password", "sasl_plain_password", "sasl.jaas.config", "ssl.key.password"])
def test_secrets_are_not_printed(key: str) -> None:
    given = {key: "hunter2"} if "." in key else {}
    keywords = {} if "." in key else {key: "hunter2"}
    settings = ClientSettings({"bootstrap.servers": "a:1", **given}, **keywords)
    assert "hunter2" not in repr(settings) + repr(settings.as_dict()) + repr(settings.entries())


def test_check_hostname_is_another_word_for_the_identification_algorithm() -> None:
    settings = ClientSettings(bootstrap_servers="a:1", ssl_check_hostname=False)
    assert settings.ssl_endpoint_identification_algorithm == ""


def test_a_call_may_not_be_given_less_time_than_a_request() -> None:
    with pytest.raises(InvalidSetting, match=r"default\.api\.timeout\.ms"):
        ClientSettings(bootstrap_servers="a:1", default_api_timeout_ms=10, request_timeout_ms=20)


def test_a_longer_request_gives_a_call_that_was_given_no_time_as_much() -> None:
    assert ClientSettings(bootstrap_servers="a:1", request_timeout_ms=90_000).call_timeout_ms == 90_000


def test_a_client_without_a_name_gets_one_of_its_own() -> None:
    settings = ClientSettings(bootstrap_servers="a:1")
    assert settings.named("producer").client_id != settings.named("producer").client_id
    assert settings.replaced(client_id="mine").named("producer").client_id == "mine"
