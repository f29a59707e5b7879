"""kafka-server-start: start a broker with a server.properties file; the same as `ottla broker start --config`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.cli.kafka.ends import fail
from ottla.cli.output import FAILED, OK

USAGE: Final = "USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*"
LOG_FILE: Final = "kafkaServer.out"


def run(words: Sequence[str]) -> int:
    waiting = list(words)
    daemon = waiting[:1] == ["-daemon"]
    if daemon:
        waiting.pop(0)
    if not waiting or waiting[0] in ("--help", "-h"):
        print(USAGE)
        return FAILED
    if waiting[0] == "--version":
        from ottla.cli.kafka.parser import KAFKA_VERSION

        print(KAFKA_VERSION)
        return OK
    path = waiting.pop(0)
    if path.startswith("-"):
        fail(f"{path} is not a recognized option\n{USAGE}")
    overrides = _overrides(waiting)
    return _in_background(path, overrides) if daemon else _serve(path, overrides)


def _overrides(words: list[str]) -> list[str]:
    found = []
    while words:
        word = words.pop(0)
        name, _, text = word.partition("=")
        if name != "--override":
            fail(f"Found non argument parameters: {word}\n{USAGE}")
        if not text:
            text = words.pop(0) if words else fail("Option override requires an argument")
        if "=" not in text:
            fail(f"Missing value for key {text}}}")
        found.append(text)
    return found


def _serve(path: str, overrides: list[str]) -> int:
    from ottla.cli.commands import broker

    parser = argparse.ArgumentParser()
    broker.add_verbs(parser.add_subparsers())
    words = [word for each in overrides for word in ("--set", each)]
    # The file says who may come; Kafka does not ask either.
    return broker.run_start(parser.parse_args(["start", "--config", path, "--insecure", *words]))


def _in_background(path: str, overrides: list[str]) -> int:
    import os
    import subprocess

    directory = Path(os.environ.get("LOG_DIR", "logs"))
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "ottla.cli.kafka", "kafka-server-start", path]
    with (directory / LOG_FILE).open("ab") as log:
        subprocess.Popen(
            [*command, *(word for each in overrides for word in ("--override", each))],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return OK
