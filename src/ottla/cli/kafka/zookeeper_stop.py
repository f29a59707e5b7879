"""zookeeper-server-stop: see server_stop.py."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.kafka.server_stop import run_zookeeper


def run(words: Sequence[str]) -> int:
    return run_zookeeper(words)
