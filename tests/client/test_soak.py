"""Many lives of clients in one process: memory stays flat, and no thread, file or object is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.testing import KafkaBroker

PROGRAM = Path(__file__).with_name("soak_program.py")


def soak(cycles: int, parts: int, *, limit_s: float, trace: bool = False) -> list[dict[str, int]]:
    """What the process holds after each part."""
    # The topic is kept small, so that what is read does not grow with the number of cycles.
    # Groups are met again at once; a broker that gathers changes for a second would make each cycle wait for one.
    with KafkaBroker({"group.consumer.assignment.interval.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("soak", configs={"segment.bytes": "1048576", "retention.bytes": "1048576"})])
        command = [sys.executable, str(PROGRAM), broker.bootstrap_servers, str(cycles), str(parts)]
        done = subprocess.run(
            command + ["--trace"] * trace, capture_output=True, text=True, timeout=limit_s, encoding="utf-8"
        )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Warning" not in done.stderr, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_flat(held: list[dict[str, int]], *, traced_kb: int, rss_kb: int, objects: int) -> None:
    """The first part warms up; after that nothing grows."""
    first, last = held[1], held[-1]
    assert last["threads"] <= first["threads"], held
    assert last["files"] <= first["files"], held
    assert last["objects"] - first["objects"] < objects, held
    assert last["traced_kb"] - first["traced_kb"] < traced_kb, held
    assert last["rss_kb"] - first["rss_kb"] < rss_kb, held


def test_clients_that_come_and_go_leave_nothing_behind():
    check_flat(soak(8, 4, limit_s=120, trace=True), traced_kb=300, rss_kb=8_000, objects=2_000)


@pytest.mark.long
def test_thousands_of_clients_leave_nothing_behind():
    """Five thousand lives of a producer, a consumer and an admin client each: a day of one every seventeen seconds."""
    check_flat(soak(500, 10, limit_s=3_000), traced_kb=300, rss_kb=16_000, objects=2_000)
