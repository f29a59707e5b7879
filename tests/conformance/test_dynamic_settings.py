"""Settings changed through the wire take effect at once, and are still there after a restart."""

from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from tests.patience import HANG_S

from ottla.testing.broker import KafkaBroker


def set_value(admin: AdminClient, kind: str, name: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    [future] = admin.incremental_alter_configs([resource]).values()
    future.result(HANG_S)


def described(admin: AdminClient, kind: str, name: str) -> dict[str, Any]:
    [future] = admin.describe_configs([ConfigResource(kind, name)]).values()
    found: dict[str, Any] = future.result(HANG_S)
    return found


def test_a_setting_of_the_broker_changes_while_it_runs_and_stays_changed(tmp_path: Path) -> None:
    with KafkaBroker(directory=tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        set_value(admin, "broker", "0", "max.connections", "77")
        set_value(admin, "broker", "0", "log.retention.ms", "123456")
        assert broker.call(lambda server: server.broker.settings.max_connections) == 77
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(HANG_S)
        assert described(admin, "topic", "t")["retention.ms"].value == "123456"
    with KafkaBroker(directory=tmp_path) as broker:
        assert broker.call(lambda server: server.broker.settings.max_connections) == 77


def test_a_setting_of_a_topic_reaches_its_log() -> None:
    with KafkaBroker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(HANG_S)
        set_value(admin, "topic", "t", "max.message.bytes", "5000")
        limits = broker.call(lambda server: [p.log.settings.max_message_bytes for p in server.broker.replicas])
        assert limits == [5000]
