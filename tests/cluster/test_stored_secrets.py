"""Secrets that are set while running, in ZooKeeper: stored encrypted, used decrypted, encoded anew."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cluster.zookeeper_cluster import ZooKeeperCluster

from ottla.client.admin.admin import Admin
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.errors import InvalidRequest
from ottla.testing.cluster import KafkaCluster

KEY = "listener.name.plaintext.ssl.keystore.password"
BROKER_0 = ConfigResource(ConfigResourceType.BROKER, "0")
ENCODER: dict[str, object] = {"password.encoder.secret": "first", "password.encoder.iterations": 1024}


def set_secret(cluster: KafkaCluster, value: str) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.incremental_alter_configs({BROKER_0: [AlterConfig(KEY, value)]})


def stored(cluster: KafkaCluster) -> str | None:
    found: str | None = cluster.call(lambda: own_config(cluster).get(KEY))
    return found


def own_config(cluster: KafkaCluster) -> Any:
    broker = cluster.server(0).broker
    return broker.image.config(broker.config_rules.broker_resource)


def used(cluster: KafkaCluster) -> str | None:
    secret = cluster.call(lambda: cluster.server(0).broker.settings.for_listener("PLAINTEXT").ssl_keystore_password)
    return None if secret is None else secret.value


def start_again(cluster: KafkaCluster, **encoder: object) -> None:
    """With these settings of password.encoder."""
    cluster.stop_broker(0)
    place = cluster._places[0]
    changed = {f"password.encoder.{name.replace('_', '.')}": value for name, value in encoder.items()}
    others = {name: value for name, value in place.settings.items() if not name.startswith("password.encoder.")}
    place.settings = {**others, **changed, "password.encoder.iterations": 1024}
    cluster.start_broker(0)
    cluster.wait_until(lambda: stored(cluster) is not None)


def test_a_secret_is_stored_encrypted_and_survives_a_new_encoder_secret(chroot: str) -> None:
    with ZooKeeperCluster(chroot, 1, ENCODER) as cluster:
        set_secret(cluster, "hunter2")
        first = stored(cluster)
        assert first is not None
        assert first.startswith("keyFactoryAlgorithm:")
        assert "hunter2" not in first
        assert used(cluster) == "hunter2"
        start_again(cluster, secret="second", old_secret="first")
        cluster.wait_until(lambda: stored(cluster) != first)
        assert used(cluster) == "hunter2"
        start_again(cluster, secret="second")
        assert used(cluster) == "hunter2"


def test_with_another_encoder_secret_the_broker_starts_without_what_it_cannot_read(
    chroot: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ZooKeeperCluster(chroot, 1, ENCODER) as cluster:
        set_secret(cluster, "hunter2")
        start_again(cluster, secret="another")
        assert used(cluster) is None
        assert f"{KEY} is stored and not used" in caplog.text
        set_secret(cluster, "hunter3")
        assert used(cluster) == "hunter3"


def test_without_an_encoder_secret_none_is_stored(chroot: str) -> None:
    with ZooKeeperCluster(chroot, 1) as cluster:
        with pytest.raises(InvalidRequest, match=r"is a secret: .* set password\.encoder\.secret") as refused:
            set_secret(cluster, "hunter2")
        assert "hunter2" not in str(refused.value)
        assert stored(cluster) is None
