"""What Kafka's commands load: most of the time of a short command is the loading of modules, so they are counted."""

import os
import re
import subprocess
import sys
from contextlib import suppress

import pytest
from tests.patience import HANG_S

from ottla.client.admin.direct_admin import direct_admin
from ottla.errors import TopicAlreadyExists

COMMANDS = {
    "kafka-topics --list": 58,
    "kafka-topics --describe": 71,
    "kafka-consumer-groups --list": 76,
    "kafka-configs --describe --entity-type topics": 64,
    "kafka-get-offsets": 61,
    "kafka-log-dirs --describe": 64,
    "kafka-features describe": 64,
}
"""Command, and how many modules of ours it may load. Whoever loads more says why."""
HEAVY = ("asyncio", "ssl", "logging", "dataclasses", "inspect", "subprocess", "random", "pathlib", "ottla.metrics")


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_that_asks_loads_little_and_no_event_loop(line, kafka_broker):
    tool, *words = line.split()
    server = ["--bootstrap-server", kafka_broker.bootstrap_servers]
    with direct_admin({"bootstrap.servers": kafka_broker.bootstrap_servers}) as admin, suppress(TopicAlreadyExists):
        admin.create_topics(["clicks"])
    command = [sys.executable, "-X", "importtime", "-m", "ottla.cli.kafka", tool, *server, *words]
    # Variables of other tests would be looked up as settings.
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("OTTLA_", "KAFKA_"))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, env=environment)
    assert done.returncode == 0, done.stderr
    loaded = re.findall(r"^import time:[^|]*\|[^|]*\| +(\S+)$", done.stderr, re.MULTILINE)
    assert not [name for name in HEAVY if name in loaded]
    ours = [name for name in loaded if name.startswith("ottla")]
    assert len(ours) <= COMMANDS[line], ours
