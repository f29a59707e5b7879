"""Secrets in ZooKeeper: what Kafka 3.9 encodes we decode, what we encode is in its form, and nobody else reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.stored_secrets import CASES, CBC, GCM, GOLDEN

from ottla.broker.security.password_encoder import ITERATIONS_LIMIT, PasswordEncoder
from ottla.broker.security.stored_secrets import secrets_of
from ottla.broker.settings import BrokerSettings
from ottla.cluster.config_layers import PlainSecrets
from ottla.errors import InvalidSetting

KAFKAS = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
MEMBER = {"zookeeper.connect": "127.0.0.1:1", "listeners": "PLAINTEXT://127.0.0.1:0"}


def encoder(secret: str = "encoder-secret", **more: Any) -> PasswordEncoder:
    return PasswordEncoder(secret, **{"iterations": 1024, **more})


@pytest.mark.parametrize("row", KAFKAS, ids=range(len(KAFKAS)))
def test_what_kafka_encoded_is_decoded_however_it_was_done(row: dict[str, Any]) -> None:
    assert encoder(row["secret"]).decode(row["encoded"]) == row["password"]


def test_a_value_has_the_fields_that_kafka_reads() -> None:
    def names(text: str) -> set[str]:
        return {part.partition(":")[0] for part in text.split(",")}

    for row in KAFKAS:
        mine = encoder(row["secret"], cipher=row["cipher"], key_bits=row["key_bits"]).encode(row["password"])
        assert names(mine) == names(row["encoded"])


@pytest.mark.parametrize("cipher", [CBC, GCM])
@given(password=st.text(max_size=100), secret=st.text(min_size=1))
def test_what_is_encoded_is_decoded_and_never_looks_the_same_twice(cipher: str, password: str, secret: str) -> None:
    try:
        password.encode(), secret.encode()
    except UnicodeEncodeError:
        return
    first, second = (encoder(secret, cipher=cipher, iterations=1).encode(password) for _ in range(2))
    assert first != second
    assert encoder(secret).decode(first) == encoder(secret).decode(second) == password


def test_all_the_cases_that_kafka_was_asked_are_kept() -> None:
    assert [tuple(row[name] for name in CASES[0]._fields) for row in KAFKAS] == [tuple(case) for case in CASES]


@pytest.mark.parametrize("cipher", [CBC, GCM])
def test_another_secret_decodes_nothing(cipher: str) -> None:
    text = encoder(cipher=cipher).encode("hunter2")
    for number in range(300):  # a padding fits by chance once in 256 times; then the length does not
        with pytest.raises(InvalidSetting, match=r"another password\.encoder\.secret"):
            encoder(f"other {number}").decode(text.replace("iterations:1024", "iterations:1"))


def test_an_old_secret_is_tried_too_and_what_it_decodes_is_outdated() -> None:
    old, new = encoder("old").encode("hunter2"), encoder("new").encode("hunter2")
    both = encoder("new", old_secret="old")
    assert both.decode(old) == both.decode(new) == "hunter2"
    assert both.is_outdated(old)
    assert not both.is_outdated(new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("salt:", "sold:"),
        ("keyLength:128", "keyLength:12"),
        ("keyLength:128", "keyLength:x"),
        ("iterations:1024", f"iterations:{ITERATIONS_LIMIT + 1}"),
        ("iterations:1024", "iterations:0"),
        ("AES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding"),
        ("PBKDF2WithHmacSHA512", "PBKDF2WithHmacMD5"),
        ("passwordLength:7", "passwordLength:8"),
        ("encryptedPassword:", "encryptedPassword:*"),
        ("encryptedPassword:", "encryptedPassword:AAAA"),
        ("initializationVector:", "initializationVector:AAAA"),
    ],
)
def test_a_text_that_was_changed_is_refused_without_being_shown(old: str, new: str) -> None:
    text = encoder().encode("hunter2")
    assert old in text
    with pytest.raises(InvalidSetting) as refused:
        encoder().decode(text.replace(old, new))
    assert "hunter2" not in str(refused.value)
    assert "encoder-secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "hunter2", "a:b", ",,,", ":" * 1000])
def test_what_is_no_such_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="no text of Kafka's password encoder"):
        encoder().decode(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [("cipher.algorithm", "DES/CBC/PKCS5Padding"), ("keyfactory.algorithm", "MD5"), ("key.length", "100")],
)
def test_a_way_that_is_not_known_ends_the_start(name: str, value: str) -> None:
    settings = BrokerSettings({**MEMBER, "password.encoder.secret": "hunter2", f"password.encoder.{name}": value})
    with pytest.raises(InvalidSetting, match=rf"password\.encoder\.{name}={value}: there is"):
        secrets_of(settings)


def test_without_a_secret_a_member_stores_none_and_uses_none() -> None:
    secrets = secrets_of(BrokerSettings(MEMBER))
    with pytest.raises(InvalidSetting, match=r"set password\.encoder\.secret") as refused:
        secrets.encode("hunter2")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(InvalidSetting, match=r"has no password\.encoder\.secret"):
        secrets.decode(encoder().encode("hunter2"))


def test_a_broker_of_its_own_keeps_secrets_in_its_directory() -> None:
    assert isinstance(secrets_of(BrokerSettings()), PlainSecrets)


def test_no_secret_is_shown() -> None:
    assert "hunter2" not in repr(encoder("hunter2"))
