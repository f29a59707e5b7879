"""Programs written for confluent-kafka and kafka-python run on Ottla with another import, and see the same things."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import HANG_S

PROGRAMS = Path(__file__).parent / "programs"
CASES = [("for_confluent_kafka.py", "confluent_kafka"), ("for_kafka_python.py", "kafka")]


def run(source, broker, name):
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", source, broker.bootstrap_servers, name],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize(("program", "library"), CASES, ids=[library for _, library in CASES])
def test_a_program_sees_the_same_when_only_its_import_changes(program, library, kafka_broker_fresh):
    source = (PROGRAMS / program).read_text()
    moved = source.replace(f"from {library}", f"from ottla.compat.{library}")
    assert moved != source
    theirs = run(source, kafka_broker_fresh, "theirs")
    ours = run(moved, kafka_broker_fresh, "ours")
    assert [line.replace("ours", "theirs") for line in ours] == theirs


def test_what_is_not_there_is_refused_and_not_passed_over(kafka_broker, unique_topic, unique_group):
    from ottla.compat.confluent_kafka.admin import AdminClient
    from ottla.compat.kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

    servers = kafka_broker.bootstrap_servers
    with AdminClient({"bootstrap.servers": servers}) as admin, pytest.raises(TypeError):
        admin.describe_configs([], no_such_argument=True)
    with KafkaAdminClient(bootstrap_servers=servers) as admin, pytest.raises(TypeError):
        admin.delete_topics([unique_topic], raise_errors=False)
    consumer = KafkaConsumer(bootstrap_servers=servers, group_id=unique_group)
    with pytest.raises(NotImplementedError, match="commit by hand"):
        consumer.close(autocommit=False)
    with pytest.raises(NotImplementedError, match="seek"):
        consumer.poll(update_offsets=False)
    consumer.close()
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send(unique_topic, b"x").get(timeout=HANG_S)
        assert producer.bootstrap_connected()
    unreachable = KafkaProducer(bootstrap_servers="127.0.0.1:1")
    assert not unreachable.bootstrap_connected()
    unreachable.close(1)
