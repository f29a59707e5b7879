"""`ottla zookeeper start`: what it starts, what it prints, how it ends. The servers are stubs here."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.cluster.store.zookeeper import server
from ottla.cluster.store.zookeeper.server import Node, ZooKeeperMissing


class Stub:
    """A ZooKeeperServer that does nothing, and is told to stop as soon as it serves."""

    made: list[dict[str, Any]] = []
    ends_by_itself = False

    def __init__(self, data: Path, **options: Any) -> None:
        self.made.append({"data": data, **options})
        self.nodes = [_StubNode(number + 1, data, 1, 2, 3) for number in range(options["nodes"])]
        self.connect = ",".join(f"127.0.0.1:{port}" for port in options["ports"])

    def __enter__(self) -> Stub:
        if not self.ends_by_itself:
            os.kill(os.getpid(), signal.SIGTERM)
        return self

    def __exit__(self, *error: object) -> None:
        self.made[-1]["stopped"] = True


class _StubNode(Node):
    @property
    def is_running(self) -> bool:
        return not Stub.ends_by_itself


@pytest.fixture(autouse=True)
def _stubbed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(server, "ZooKeeperServer", Stub)
    monkeypatch.setattr(Stub, "made", [])
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def test_one_node_on_the_usual_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zookeeper", "start"]) == 0
    assert capsys.readouterr().out == "ZooKeeper serves: zookeeper.connect=127.0.0.1:2181\n"
    assert Stub.made[0]["durable"]
    assert Stub.made[0]["stopped"]


def test_three_nodes_have_ports_in_a_row(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["zookeeper", "start", "--nodes", "3", "--port", "4000", "--data", str(tmp_path)]) == 0
    assert "127.0.0.1:4000,127.0.0.1:4001,127.0.0.1:4002" in capsys.readouterr().out
    assert Stub.made[0]["data"] == tmp_path


def test_a_node_that_ends_by_itself_ends_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Stub, "ends_by_itself", True)
    monkeypatch.setattr("ottla.cli.commands.zookeeper.LOOK_EVERY_S", 0.0)
    (tmp_path / "server.log").write_text("no space left\n")
    assert main(["zookeeper", "start", "--data", str(tmp_path)]) == 1
    assert "node 1 of ZooKeeper ended:\nno space left" in capsys.readouterr().err


def test_without_java_it_says_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Stub) -> Stub:
        raise ZooKeeperMissing("there is no java")

    monkeypatch.setattr(Stub, "__enter__", refuse)
    assert main(["zookeeper", "start"]) == 1
    assert "there is no java" in capsys.readouterr().err


def test_a_port_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zookeeper", "start", "--port", "65535"]) == 1
    assert "65535 is no port" in capsys.readouterr().err
