"""kafka-server-stop and zookeeper-server-stop: end what the matching start commands began on this machine.

The signal is SIGTERM, or what the variable SIGNAL names. Only processes of the same user can be ended. --node-id keeps
to the broker whose file of settings has that id.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.cli.kafka.ends import fail
from ottla.cli.output import FAILED, OK

BROKER: Final = re.compile(r"(\bottla broker start\b|\bkafka-server-start(\.sh)? )")
ZOOKEEPER: Final = re.compile(r"(\bottla zookeeper start\b|\bzookeeper-server-start(\.sh)? )")


def run(words: Sequence[str]) -> int:
    node = _node_id(words)
    return stop(BROKER, "No kafka server to stop", _processes(), os.environ, node)


def run_zookeeper(words: Sequence[str]) -> int:
    if words:
        fail(f"unrecognized option '{words[0]}'; there is none")
    return stop(ZOOKEEPER, "No zookeeper server to stop", _processes(), os.environ)


def _node_id(words: Sequence[str]) -> str | None:
    found = None
    waiting = list(words)
    while waiting:
        name, _, text = waiting.pop(0).partition("=")
        if name not in ("--node-id", "--process-role"):
            fail(f"unrecognized option '{name}'; there is --node-id=N")
        text = text or (waiting.pop(0) if waiting else "")
        if name == "--process-role" and "broker" not in text:
            fail("No kafka server to stop")  # every process here is a broker
        found = text if name == "--node-id" else found
    return found


def stop(
    pattern: re.Pattern[str],
    nothing: str,
    processes: Iterable[tuple[int, str]],
    environment: Mapping[str, str],
    node: str | None = None,
) -> int:
    """Signal the processes whose command lines match; `nothing` is said, and 1 returned, when there is none."""
    found = [number for number, line in processes if pattern.search(line) and _is_node(line, node)]
    if not found:
        print(nothing)
        return FAILED
    name = environment.get("SIGNAL", "TERM").upper().removeprefix("SIG")
    if not hasattr(signal, f"SIG{name}"):
        fail(f"{name}: invalid signal specification")
    for number in found:
        os.kill(number, signal.Signals[f"SIG{name}"])
    return OK


def _is_node(line: str, node: str | None) -> bool:
    if node is None:
        return True
    named = re.search(r"(?:broker|node)\.id=(\S+)", line)
    if named is not None:
        return named[1] == node
    return any(re.search(rf"^(?:broker|node)\.id\s*=\s*{re.escape(node)}\s*$", text, re.M) for text in _files_of(line))


def _files_of(line: str) -> Iterator[str]:
    for word in line.split():
        if word.endswith(".properties") and Path(word).is_file():
            yield Path(word).read_text("iso-8859-1")


def _processes() -> Iterator[tuple[int, str]]:
    """The processes of this machine with their command lines, without this one."""
    import subprocess

    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    for row in listed.splitlines():
        number, _, line = row.strip().partition(" ")
        if int(number) != os.getpid():
            yield int(number), line
