"""What Kafka's commands load: most of the time of a short command is the loading of modules, so they are counted."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest
from tests.patience import HANG_S

from ottla.cli.collecting import RARELY
from ottla.client.admin.direct_admin import direct_admin
from ottla.errors import TopicAlreadyExists

COMMANDS = {
    "kafka-topics --list": 58,
    "kafka-topics --describe": 73,  # two of them only when it has to ask again
    "kafka-consumer-groups --list": 76,
    "kafka-configs --describe --entity-type topics": 65,
    "kafka-get-offsets": 61,
    "kafka-log-dirs --describe": 64,
    "kafka-features describe": 64,
}
"""Command, and how many modules of ours it may load. Whoever loads more says why."""
WRITING_AND_READING = {
    "kafka-console-producer --topic clicks": 138,
    "kafka-console-consumer --topic clicks --partition 0 --from-beginning --timeout-ms 1": 149,
    "kafka-producer-perf-test --topic clicks --num-records 2 --record-size 10 --throughput -1": 139,
    "kafka-e2e-latency --topic clicks --num-records 2 --producer-acks 1 --record-size 10": 193,
}
"""The same for commands that have a whole client."""
SELDOM = (
    "difflib",
    "dataclasses",
    "ottla.records._checks",
    "ottla.records._compaction",
    "ottla.client.producer.batches.arrow_columns",
    "ottla.client.producer.inspection",
    "ottla.client.consumer.membership.consumer",
)
"""What nobody needs who writes or reads a few records."""
HEAVY = ("asyncio", "ssl", "logging", "dataclasses", "inspect", "subprocess", "random", "pathlib", "ottla.metrics")


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_that_asks_loads_little_and_no_event_loop(line, kafka_broker):
    loaded = modules_loaded_by(line, kafka_broker)
    assert not [name for name in HEAVY if name in loaded]
    ours = [name for name in loaded if name.startswith("ottla")]
    assert len(ours) <= COMMANDS[line], ours


@pytest.mark.parametrize("line", WRITING_AND_READING)
def test_a_command_that_writes_or_reads_loads_what_it_needs(line, kafka_broker):
    loaded = modules_loaded_by(line, kafka_broker)
    assert not [name for name in SELDOM if name in loaded]
    if "e2e" not in line:  # which asks for records again and again
        assert "ottla.protocol.compiled" not in loaded
    ours = [name for name in loaded if name.startswith("ottla")]
    assert len(ours) <= WRITING_AND_READING[line], ours


def modules_loaded_by(line: str, broker: Any) -> list[str]:
    tool, *words = line.split()
    server = ["--bootstrap-server", broker.bootstrap_servers]
    with direct_admin({"bootstrap.servers": broker.bootstrap_servers}) as admin, suppress(TopicAlreadyExists):
        admin.create_topics(["clicks"])
    command = [sys.executable, "-X", "importtime", "-m", "ottla.cli.kafka", tool, *server, *words]
    # Variables of other tests would be looked up as settings.
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("OTTLA_", "KAFKA_"))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, env=environment, input="one\ntwo\n")
    assert done.returncode == 0, done.stderr
    return re.findall(r"^import time:[^|]*\|[^|]*\| +(\S+)$", done.stderr, re.MULTILINE)


def test_a_command_seldom_looks_for_garbage_and_a_broker_never_twice_at_the_same():
    program = (
        "import gc\nfrom ottla.cli import collecting\nusual = gc.get_threshold()\ncollecting.collect_rarely()\n"
        "print(gc.get_threshold()[0])\ncollecting.collect_for_service()\nprint(gc.get_threshold()[:2] == usual[:2])\n"
        "gc.collect()\nthings = [[] for _ in range(5000)]\ngc.collect(1)\nprint(gc.get_freeze_count() > 0)\n"
        "frozen = gc.get_freeze_count()\ngc.collect()\nprint(gc.get_freeze_count() >= frozen + 5000)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout.split() == [str(RARELY), "True", "True", "True"]
