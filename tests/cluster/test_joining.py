"""Three machines, three commands: a node begins a cluster, others join it by the line it prints, one is lost, another
takes its place. Real processes on one machine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.patience import HANG_S, wait_until

import ottla
from ottla.testing.promises import NumberedLoad, read_numbers

PARTITIONS = 3
QUICK: Final = {
    "ottla.admin.listener": "",
    "controller.quorum.fetch.timeout.ms": 1_000,  # a controller asks for its vote three times as late
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "ottla.log.format": "text",
}


class Nodes:
    """Processes of `ottla broker start`, each with a directory that stays."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for number, process in self._processes.items():
            process.kill()
            process.wait(HANG_S)
            if kind is not None:
                print(f"--- {number}\n{self._log(number).read_text('utf-8')}\n{self.output(number)}")

    def begin(self, number: int, *words: str) -> None:
        """Start it, and do not wait."""
        pairs = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "ottla", *words, "--data", str(self.data(number)), *pairs]
        with self._output(number).open("wb") as output, self._log(number).open("ab") as errors:
            self._processes[number] = subprocess.Popen(command, stdout=output, stderr=errors, stdin=subprocess.DEVNULL)

    def serves(self, number: int) -> str:
        """Wait until it does; its address."""
        wait_until(lambda: " is ready at " in self.output(number) or self._ended(number), f"node {number} serves")
        assert not self._ended(number), self._log(number).read_text("utf-8")
        return self.output(number).partition(" is ready at ")[2].split()[0]

    def start(self, number: int, *words: str) -> str:
        self.begin(number, *words)
        return self.serves(number)

    def id(self, number: int) -> int:
        """The id that it got."""
        return int(self.output(number).partition("ottla: broker ")[2].split()[0])

    def line(self, number: int) -> list[str]:
        """What to type on the next machine, without the first word."""
        wait_until(lambda: "\nottla broker start" in self.output(number), "the line for the next machine")
        (line,) = [each for each in self.output(number).splitlines() if each.startswith("ottla broker start")]
        return line.split()[1:]

    def kill(self, number: int, what: signal.Signals = signal.SIGKILL) -> None:
        self._processes[number].send_signal(what)
        self._processes[number].wait(HANG_S)

    def ends(self, number: int) -> int:
        return self._processes[number].wait(HANG_S)

    def output(self, number: int) -> str:
        return self._output(number).read_text("utf-8")

    def said(self, number: int) -> str:
        return self._log(number).read_text("utf-8")

    def _ended(self, number: int) -> bool:
        return self._processes[number].poll() is not None

    def data(self, number: int) -> Path:
        return self._directory / f"data-{number}"

    def _output(self, number: int) -> Path:
        return self._directory / f"output-{number}.txt"

    def _log(self, number: int) -> Path:
        return self._directory / f"log-{number}.txt"


def ottla_says(servers: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ottla", *words, "-b", servers], capture_output=True, text=True, timeout=HANG_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def members(servers: str) -> dict[int, dict[str, Any]]:
    found = json.loads(ottla_says(servers, "cluster", "members", "--json"))
    return {each["id"]: each for each in found}


def voters(servers: str) -> list[int]:
    with ottla.Admin(bootstrap_servers=servers) as admin:
        return sorted(each.node_id for each in admin.describe_metadata_quorum(timeout=HANG_S).voters)


def copies(servers: str, topic: str) -> list[tuple[set[int], set[int]]]:
    with ottla.Admin(bootstrap_servers=servers) as admin:
        described = admin.describe_topics([topic], timeout=HANG_S)[topic]
    return [(set(each.replicas), set(each.in_sync)) for each in described.partitions]


def test_three_commands_are_a_cluster_and_a_fourth_node_takes_the_place_of_a_lost_one(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes:
        first = nodes.start(1, "broker", "start", "--new-cluster", "--listen", "127.0.0.1:0")
        join = nodes.line(1)
        assert join[:4] == ["broker", "start", "--join", first]
        assert ottla_says(first, "cluster", "invite").split()[1:] == join, "it can be asked for at any time"
        with ottla.Producer(bootstrap_servers=first) as producer:  # a group's offsets, while there is one broker
            producer.send("early", b"1").result(HANG_S)
        with ottla.Consumer("early", bootstrap_servers=first, group_id="g", auto_offset_reset="earliest") as consumer:
            assert next(iter(consumer)).value == b"1"
            consumer.commit()
        for number in (2, 3):
            nodes.begin(number, *join, "--listen", "127.0.0.1:0")  # at the same time
        servers = ",".join([first, nodes.serves(2), nodes.serves(3)])
        began = sorted(map(nodes.id, (1, 2, 3)))  # who comes at the same time as another may get a higher one
        wait_until(lambda: voters(servers) == began, "three votes")
        wait_until(lambda: copies(servers, "__consumer_offsets") == [(set(began),) * 2] * 2, "copies of the offsets")
        with ottla.Admin(bootstrap_servers=servers) as admin:
            topic = ottla.NewTopic("clicks", PARTITIONS, 3, configs={"min.insync.replicas": "2"})
            admin.create_topics([topic], timeout=HANG_S)
        with NumberedLoad(servers, "clicks", partitions=PARTITIONS) as load:
            load.wait_for(50)
            lost = nodes.id(3)
            nodes.kill(3)
            nodes.start(4, *join, "--listen", "127.0.0.1:0")
            new = nodes.id(4)
            wait_until(lambda: members(servers)[lost]["fenced"], "the lost node is fenced")
            shown = members(servers)
            assert shown[lost]["vote"] == "voter"
            assert shown[lost]["silent_ms"] >= 1_000
            assert (shown[new]["vote"], shown[new]["fenced"]) == ("observer", False)
            plan = ottla_says(servers, "cluster", "replace", str(lost), "--with", str(new), "--plan")
            assert f"take the vote of node {lost}" in plan
            assert voters(servers) == began
            said = ottla_says(servers, "cluster", "replace", str(lost), "--with", str(new), "--yes")
            assert said.splitlines()[-1] == f"broker {lost} is forgotten"
            load.wait_for(50)
        left = {*began, new} - {lost}
        assert set(voters(servers)) == left == set(members(servers))
        assert copies(servers, "clicks") == [(left, left)] * PARTITIONS
        load.check(read_numbers(servers, "clicks", PARTITIONS))
        nodes.kill(2, signal.SIGTERM)
        nodes.start(2, *join, "--listen", "127.0.0.1:0")  # the same command again: it is the node that it was
        wait_until(lambda: copies(servers, "clicks") == [(left, left)] * PARTITIONS, "it follows again")
        load.check(read_numbers(servers, "clicks", PARTITIONS))


def test_a_secured_cluster_is_joined_by_lines_that_are_good_once_and_survives_a_stop_of_all(
    tmp_path: Path,
) -> None:
    with Nodes(tmp_path) as nodes:
        first = nodes.start(1, "broker", "start", "--new-cluster", "--secure", "--listen", "127.0.0.1:0")
        line = nodes.data(1) / "join-line.txt"
        wait_until(line.exists, "the line for the next machine")
        assert line.stat().st_mode & 0o077 == 0
        used = line.read_text("utf-8").split()[1:]
        nodes.start(2, *used, "--listen", "127.0.0.1:0")
        wait_until(lambda: line.exists() and line.read_text("utf-8").split()[1:] != used, "the next line")
        nodes.start(3, *line.read_text("utf-8").split()[1:], "--listen", "127.0.0.1:0")
        settings = ottla.read_properties(nodes.data(1) / "client.properties")
        servers = [nodes.serves(number).partition(",")[0] for number in (1, 2, 3)]
        assert servers[0] == first.partition(",")[0]

        def votes() -> list[int]:
            with ottla.Admin({**settings, "bootstrap.servers": ",".join(servers)}) as admin:
                return sorted(each.node_id for each in admin.describe_metadata_quorum(timeout=HANG_S).voters)

        wait_until(lambda: votes() == [1, 2, 3], "three votes")
        with ottla.Admin(settings) as admin:
            admin.create_topics([ottla.NewTopic("clicks", 1, 3)], timeout=HANG_S)
        with ottla.Producer(settings, acks="all") as producer:
            producer.send("clicks", b"1").result(HANG_S)
        for number in (1, 2, 3):
            nodes.kill(number)
        for number in (1, 2, 3):  # each by its directory alone: nobody has a line, or leads, or knows a user
            nodes.begin(number, "broker", "start")
        assert [nodes.serves(number).partition(",")[0] for number in (1, 2, 3)] == servers
        reading = {**settings, "bootstrap.servers": servers[2], "group.id": "g", "auto.offset.reset": "earliest"}
        with ottla.Consumer("clicks", reading) as consumer:
            assert next(iter(consumer)).value == b"1"
        nodes.begin(4, *used, "--listen", "127.0.0.1:0")
        assert nodes.ends(4) == 1, "a line is good once"
        assert "the token is not good any more" in nodes.said(4)
        assert not (nodes.data(4) / "server.pem").exists()


def invited(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", "cluster", "invite", "--data", str(directory), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)


def test_a_secured_cluster_that_runs_makes_a_line_for_each_machine_that_is_to_come(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes:
        nodes.start(1, "broker", "start", "--new-cluster", "--secure", "--listen", "127.0.0.1:0")
        wait_until((nodes.data(1) / "join-line.txt").exists, "it lets others in")
        nodes.kill(1, signal.SIGTERM)
        nodes.start(1, "broker", "start")  # without a line of its own: it signs for lines that are asked for
        first, second = (json.loads(invited(nodes.data(1), "--expires", "10m", "--json").stdout) for _ in range(2))
        assert first["line"] != second["line"]
        assert (first["times"], first["cluster_id"]) == (1, second["cluster_id"])
        assert "expires_ms" in first
        for number, line in ((2, first), (3, second)):
            nodes.start(number, *line["line"].split()[1:], "--listen", "127.0.0.1:0")
        kept = [path.stem for path in nodes.data(1).glob("*.ticket")]
        assert not set(kept) & set(used(first, second)), "each is good once"
        refused = invited(nodes.data(2))
        assert refused.returncode == 1
        assert "Only the node that began the cluster has it (Ottla CA of " in refused.stderr
        nodes.begin(4, *first["line"].split()[1:], "--listen", "127.0.0.1:0")
        assert nodes.ends(4) == 1
        settings = ottla.read_properties(nodes.data(1) / "client.properties")
        with ottla.Admin(settings) as admin:
            wait_until(
                lambda: not [name for name in admin.describe_user_scram_credentials() if name in used(first, second)],
                "their logins are taken away",
            )


def used(*lines: dict[str, Any]) -> list[str]:
    """The users that lines were."""
    return [line["line"].split()[-1].split(".")[3] for line in lines]
