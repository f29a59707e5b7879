"""A secret set while running is not stored where others could read it."""

from __future__ import annotations

import pytest

from ottla.broker.security.stored_secrets import refuse_stored_secrets
from ottla.broker.settings import BrokerSettings
from ottla.errors import InvalidSetting
from ottla.settings import Source

STATIC = BrokerSettings(
    {"zookeeper.connect": "127.0.0.1:2181", "listeners": "PLAINTEXT://127.0.0.1:0", "ssl.key.password": "in the file"}
)


@pytest.mark.parametrize("name", ["ssl.keystore.password", "ssl.keystore.key"])
def test_a_secret_is_refused_without_being_shown(name: str) -> None:
    key = f"listener.name.plaintext.{name}"
    with pytest.raises(InvalidSetting, match="is a secret") as refused:
        refuse_stored_secrets(STATIC.replaced({key: "hunter2"}, source=Source.DYNAMIC))
    assert key in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_what_is_no_secret_and_what_stands_in_the_file_is_fine() -> None:
    refuse_stored_secrets(STATIC)
    location = {"listener.name.plaintext.ssl.keystore.location": "/etc/x.pem", "max.connections": "7"}
    refuse_stored_secrets(STATIC.replaced(location, source=Source.DYNAMIC))
