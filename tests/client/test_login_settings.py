"""Settings of logins that are changed while a broker runs: what cannot work is refused before anything is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.patience import HANG_S

from ottla import Admin
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.errors import InvalidRequest
from ottla.testing import KafkaBroker

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    USERS: f'{PLAIN} username="admin" password="a" user_admin="a";',
}
BROKER = ConfigResource(ConfigResourceType.BROKER, "0")


def login(broker: KafkaBroker, user: str = "admin", password: str = "a") -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (USERS, f"{PLAIN} user_admin=a"),
        (USERS, f"{PLAIN};"),
        (USERS, "no line of JAAS"),
        ("listener.name.sasl_plaintext.sasl.enabled.mechanisms", "TELEPATHY"),
    ],
)
def test_a_login_that_cannot_work_is_refused_and_not_kept(tmp_path: Path, name: str, value: str) -> None:
    with KafkaBroker(SETTINGS, directory=tmp_path) as broker, Admin(login(broker)) as admin:
        before = broker.call(lambda server: dict(server.broker.image.configs))
        with pytest.raises(InvalidRequest):
            admin.incremental_alter_configs({BROKER: [AlterConfig(name, value)]}, timeout=HANG_S)
        assert broker.call(lambda server: dict(server.broker.image.configs)) == before
    with KafkaBroker(SETTINGS, directory=tmp_path) as broker, Admin(login(broker)) as admin:
        admin.list_topics(timeout=HANG_S)


def test_a_user_that_is_added_can_log_in(tmp_path: Path) -> None:
    more = AlterConfig(USERS, f'{PLAIN} username="admin" password="a" user_admin="a" user_erin="e";')
    with KafkaBroker(SETTINGS, directory=tmp_path) as broker:
        with Admin(login(broker)) as admin:
            admin.incremental_alter_configs({BROKER: [more]}, timeout=HANG_S)
        with Admin(login(broker, "erin", "e")) as erin:
            erin.list_topics(timeout=HANG_S)
