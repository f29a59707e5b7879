"""Three machines, three commands, locked: kill -9, a partition, a lost disk, a fourth machine, a rolling restart, an
upgrade, while clients of five libraries work.

Hosts are network namespaces (hosts.py), nodes are processes with the settings that everybody gets, joined by the lines
that the first one wrote. Clients log in over SASL_SSL as a user who may do what the documentation says that he needs.
Nobody may be stuck for more than STUCK_S, nothing acknowledged may be lost, copies are the same bytes: judged by the
simulation's checker. Needs root, the program ip and, for the fifth library, Java: `make test-long` runs it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest
from tests.cluster.hosts import Hosts
from tests.cluster.namespace_lab import namespaces_missing
from tests.cluster.watched_clients import (
    JAVA,
    PARTITIONS,
    JavaClient,
    PythonClient,
    Silence,
    Watched,
    longest,
    one_history,
)
from tests.conformance.java_programs import jars_or_skip
from tests.histories.clients import CLIENTS
from tests.patience import HANG_S, wait_until

import ottla
from ottla.errors import OttlaError
from ottla.simulation.checker import check
from ottla.simulation.history import Event
from ottla.simulation.real.recording import SharedHistory, read_everything
from ottla.values import TopicPartition

pytestmark = pytest.mark.long

STUCK_S: Final = 30.0
HELD_S: Final = 20.0
"""Longer than a session of a broker and a leadership of a controller last without a word."""
TOPICS: Final = (*CLIENTS, JAVA)
INTERNAL: Final = "__consumer_offsets"
USER: Final = "load"
CLIENTS_HOST: Final = "clients"
OPERATOR: Final = "operator"
PORT: Final = 9092
FIRST_SECURED: Final = "64a8c8a4"
"""The commit that had such clusters first."""
SHOWN: Final = 20


# --- nodes ------------------------------------------------------------------------------------------------------------


class Machines:
    """A node on each host; its number is the host's, and its id."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.code: dict[int, Path] = {}
        """Another checkout whose code a node runs."""
        self.settings: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None:
            for number in self._processes:
                print(f"--- {host_name(number)}\n{self.said(number)[-6000:]}")

    # --- their lives ---

    def begin_first(self) -> None:
        words = ["broker", "start", "--new-cluster", "--secure", "--listen", f"{self.address(1)}:{PORT}"]
        self._start(1, words)
        file = self.operators_file()
        self.settings = dict(ottla.read_properties(file))

    def join(self, number: int) -> None:
        """By the line that the first node wrote: typed as it is, in the host's directory."""
        line = self.data(1) / "join-line.txt"
        wait_until(line.exists, "the line for the next machine")
        words = line.read_text("utf-8").split()
        assert words[:3] == ["ottla", "broker", "start"]
        self._start(number, words[1:])
        wait_until(lambda: line.exists() and line.read_text("utf-8").split() != words, "the line after it")

    def again(self, number: int) -> None:
        """The start after the first one: of the first node by its command, of the others by their directory alone."""
        wait_until(lambda: self._processes[number].poll() is not None, "its last life is over")
        secured = ["--new-cluster", "--secure"] if number == 1 else []
        self._start(number, ["broker", "start", *secured])

    def kill(self, number: int, how: signal.Signals = signal.SIGKILL) -> None:
        self._processes[number].send_signal(how)
        self._processes[number].wait(HANG_S)

    def _start(self, number: int, words: Sequence[str]) -> None:
        name, life = host_name(number), len(list(self._hosts.directory(host_name(number)).glob("output-*")))
        directory = self._hosts.directory(name)
        output, errors = directory / f"output-{life}.txt", directory / f"log-{life}.txt"
        environment = {"HOME": str(directory)}
        if number in self.code:
            environment |= code_of(self.code[number])
        with output.open("wb") as to_output, errors.open("wb") as to_errors:
            command = [sys.executable, "-m", "ottla", *words]
            process = self._hosts.begin(name, command, to_output, to_errors, environment=environment)
        self._processes[number] = process
        wait_until(lambda: " is ready at " in output.read_text("utf-8") or process.poll() is not None, f"{name} serves")
        assert process.poll() is None, errors.read_text("utf-8")

    # --- looking ---

    def address(self, number: int) -> str:
        return self._hosts.address[host_name(number)]

    def data(self, number: int) -> Path:
        return self._hosts.directory(host_name(number)) / ".local/share/ottla"

    def said(self, number: int) -> str:
        """What all its lives wrote on stderr."""
        logs = sorted(self._hosts.directory(host_name(number)).glob("log-*"))
        return "".join(each.read_text("utf-8", "replace") for each in logs)

    def faults(self) -> list[str]:
        """Lines that tell of something that must not happen."""
        return [
            f"{host_name(number)}: {line}"
            for number in self._processes
            for line in self.said(number).splitlines()
            if '"ERROR"' in line or '"CRITICAL"' in line or "Traceback" in line
        ]

    @property
    def servers(self) -> str:
        return ",".join(f"{self.address(number)}:{PORT}" for number in self._processes)

    def operators_file(self) -> Path:
        """client.properties and the authority's certificate, as they are copied to another machine."""
        directory = self._hosts.directory(OPERATOR)
        file = directory / "client.properties"
        shutil.copy(self.data(1) / "ca.pem", directory)
        text = (self.data(1) / "client.properties").read_text("utf-8")
        file.write_text(text.replace(str(self.data(1)), str(directory)), "utf-8")
        assert str(directory / "ca.pem") in file.read_text("utf-8")
        return file

    def operator(self, *words: str) -> str:
        """A command of the operator, who sees only that it worked and what it said."""
        file = self._hosts.directory(OPERATOR) / "client.properties"
        command = [sys.executable, "-m", "ottla", *words, "-b", self.servers, "--command-config", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def admin(self) -> Iterator[ottla.Admin]:
        with ottla.Admin({**self.settings, "bootstrap.servers": self.servers}) as admin:
            yield admin

    def votes(self) -> list[int]:
        with self.admin() as admin:
            return sorted(each.node_id for each in admin.describe_metadata_quorum(timeout=HANG_S).voters)

    def active_controller(self) -> int:
        with self.admin() as admin:
            return admin.describe_metadata_quorum(timeout=HANG_S).leader

    def partitions(self, *topics: str) -> Mapping[TopicPartition, Any]:
        with self.admin() as admin:
            found = admin.describe_topics(list(topics), timeout=HANG_S)
        return {
            TopicPartition(name, each.partition): each for name, topic in found.items() for each in topic.partitions
        }

    def wait_for_copies(self, numbers: Sequence[int], *topics: str) -> None:
        """Until each of these nodes has a copy of each partition, and all are in sync."""

        def done() -> bool:
            try:
                found = self.partitions(*topics).values()
            except OttlaError as error:
                if not error.retriable:
                    raise
                return False  # whoever was asked has just begun
            return all(set(each.replicas) == set(each.in_sync) == set(numbers) for each in found)

        wait_until(done, f"copies of {', '.join(topics)} on {numbers}", step_s=0.5)

    def copies(self, numbers: Sequence[int], *topics: str) -> dict[str, dict[int, bytes]]:
        """The bytes of every copy, when nobody writes any more; they get HANG_S to be alike."""
        found = {}
        for key in self.partitions(*topics):
            name = f"{key.topic}-{key.partition}"

            def alike(name: str = name) -> bool:
                found[name] = {number: self._bytes(number, name) for number in numbers}
                return len(set(found[name].values())) == 1

            wait_until(alike, f"copies of {name} are alike", step_s=0.5)
        return found

    def _bytes(self, number: int, name: str) -> bytes:
        return b"".join(path.read_bytes() for path in sorted((self.data(number) / name).glob("*.log")))


def host_name(number: int) -> str:
    return f"host-{number}"


# --- clients, and what happens to them --------------------------------------------------------------------------------


class Story:
    """What happened, and how long which client heard nothing meanwhile."""

    def __init__(self, machines: Machines, clients: Sequence[Watched]) -> None:
        self._machines, self._clients = machines, clients
        self._rows: list[tuple[str, float, dict[str, tuple[Silence, Silence]]]] = []
        self.nodes = [1, 2, 3]

    @contextmanager
    def event(self, what: str) -> Iterator[None]:
        """All is well before it and after it."""
        since_s = time.monotonic()
        print(f"{what} ...", flush=True)
        yield
        for client in self._clients:
            client.wait_for_more(10)
        self._machines.wait_for_copies(self.nodes, *TOPICS, INTERNAL)
        until_s = time.monotonic()
        silences = {
            client.name: tuple(longest(seen, since_s, until_s) for seen in (client.acknowledged(), client.read()))
            for client in self._clients
        }
        self._rows.append((what, until_s - since_s, silences))  # type: ignore[arg-type]
        print(self._line(*self._rows[-1]), flush=True)

    def _line(self, what: str, took_s: float, silences: dict[str, tuple[Silence, Silence]]) -> str:
        cells = (f"{sent.seconds:.1f} / {read.seconds:.1f}" for sent, read in silences.values())
        return f"| {what} | {took_s:.0f} | {' | '.join(cells)} |"

    def report(self) -> str:
        names = [client.name for client in self._clients]
        lines = [f"| event (longest silence: sent / read, s) | took s | {' | '.join(names)} |"]
        lines += ["|" + " --- |" * (len(names) + 2), *(self._line(*row) for row in self._rows)]
        return "\n".join(lines)

    def check(self) -> None:
        """Nobody was stuck."""
        stuck = [
            f"{name} at {what}: {how} of {silence.partition} {silence.seconds:.1f} s"
            for what, _, silences in self._rows
            for name, pair in silences.items()
            for how, silence in zip(("nothing acknowledged", "nothing read"), pair, strict=True)
            if silence.seconds > STUCK_S
        ]
        assert not stuck, "\n".join(stuck)


def prepare(machines: Machines, hosts: Hosts) -> Path:
    """Topics, and a user who may write and read them; his file, on the clients' host."""
    for topic in TOPICS:
        words = ("topic", "create", topic, "-p", str(PARTITIONS), "-r", "3", "--config", "min.insync.replicas=2")
        machines.operator(*words)
    directory = hosts.directory(CLIENTS_HOST)
    file = directory / f"{USER}.properties"
    machines.operator("user", "create", USER, "--generate", "--client-config", str(file))
    topics = [word for topic in TOPICS for word in ("--topic", topic)]
    groups = [word for topic in TOPICS for word in ("--group", topic)]
    machines.operator("acl", "add", "--allow", USER, "--producer", *topics)
    machines.operator("acl", "add", "--allow", USER, "--consumer", *topics, *groups)
    shutil.copy(machines.data(1) / "ca.pem", directory)
    file.write_text(file.read_text("utf-8").replace(str(hosts.directory(OPERATOR)), str(directory)), "utf-8")
    return file


@contextmanager
def five_libraries(machines: Machines, hosts: Hosts) -> Iterator[list[Watched]]:
    login = prepare(machines, hosts)
    jars, where = jars_or_skip("4.3"), (hosts, CLIENTS_HOST, machines.servers, login)
    with ExitStack() as stack:
        clients: list[Watched] = [stack.enter_context(JavaClient(jars, *where))]
        for at, name in enumerate(CLIENTS, start=1):
            clients.append(stack.enter_context(PythonClient(name, *where, first=at * 1_000_000)))
        for client in clients:
            client.wait_for_more(10)
        yield clients


def judge(machines: Machines, clients: Sequence[Watched], numbers: Sequence[int]) -> str:
    """All that was acknowledged is where it was said to be, groups kept their offsets, copies are the same bytes."""
    last = SharedHistory()
    last.note("faults", "healed")
    topics = dict.fromkeys(TOPICS, PARTITIONS)
    read_everything(last, machines.servers, topics, settings=machines.settings)
    ending = [
        Event(each.time_s, each.client, each.kind, each.action, each.number * 100 + 99, each.facts)
        for each in last.events
    ]
    events = [*one_history(clients), *ending]
    anomalies = check(events, replicas=machines.copies(numbers, *TOPICS, INTERNAL))
    assert not anomalies, f"{len(anomalies)} anomalies:\n" + "\n".join(map(str, anomalies[:SHOWN]))
    polls = [each.facts["records"] for each in ending if each.action == "final-poll" and each.kind == "ok"]
    there = {(partition, offset): value for records in polls for partition, offset, value in records}
    for client in clients:
        seen = client.acknowledged()
        wrong = [each for each in seen if each.offset >= 0 and there.get((each.partition, each.offset)) != each.value]
        assert not wrong, f"{client.name}: {len(wrong)} are not where they were said to be: {wrong[:3]}"
        committed = committed_offsets(machines, client.name)
        for partition, promised in client.promised().items():
            assert promised <= committed[partition], f"{partition}: committed were {promised}, and are {committed}"
    counts = ", ".join(f"{client.name} {len(client.acknowledged())}" for client in clients)
    return f"{len(events)} events, no anomaly; acknowledged: {counts}"


def committed_offsets(machines: Machines, group: str) -> dict[str, int]:
    with machines.admin() as admin:
        found = admin.list_consumer_group_offsets(group, timeout=HANG_S)
    return {f"{key.topic}-{key.partition}": each.offset for key, each in found.items()}


# --- the stories ------------------------------------------------------------------------------------------------------


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    if (reason := namespaces_missing()) is not None:
        pytest.skip(reason)
    jars_or_skip("4.3")
    (tmp_path / OPERATOR).mkdir()
    with Hosts(tmp_path, [*map(host_name, (1, 2, 3, 4)), CLIENTS_HOST]) as made:
        yield made


def three_voters(machines: Machines) -> None:
    machines.begin_first()
    for number in (2, 3):
        machines.join(number)
    wait_until(lambda: machines.votes() == [1, 2, 3], "three votes", step_s=0.5)


def leader_that_is_not(machines: Machines, controller: int) -> int:
    """Of a partition of the first topic, or of any other."""
    found = [each.leader for each in machines.partitions(*TOPICS).values()]
    return next(each for each in found if each not in (None, controller))


def test_clients_of_five_libraries_are_never_stuck_and_lose_nothing(hosts: Hosts, tmp_path: Path) -> None:
    with Machines(hosts) as machines:
        three_voters(machines)
        with five_libraries(machines, hosts) as clients:
            story = Story(machines, clients)
            with story.event("nothing"):
                time.sleep(HELD_S / 2)
            victim = machines.active_controller()
            with story.event(f"kill -9 of the active controller (node {victim})"):
                machines.kill(victim)
                time.sleep(HELD_S)
                machines.again(victim)
            victim = leader_that_is_not(machines, machines.active_controller())
            with story.event(f"kill -9 of a leader (node {victim})"):
                machines.kill(victim)
                time.sleep(HELD_S)
                machines.again(victim)
            victim = machines.active_controller()
            with story.event(f"partition of the active controller (node {victim})"):
                hosts.isolate(host_name(victim))
                time.sleep(2 * HELD_S)
                hosts.heal()
            victim = leader_that_is_not(machines, machines.active_controller())
            with story.event(f"partition of a leader (node {victim})"):
                hosts.isolate(host_name(victim))
                time.sleep(2 * HELD_S)
                hosts.heal()
            with story.event("lost disk of node 3, node 4 in its place"):
                lose_a_disk(machines)
                story.nodes = [1, 2, 4]
            for number in story.nodes:
                with story.event(f"rolling restart (node {number})"):
                    machines.kill(number, signal.SIGTERM)
                    machines.again(number)
            for client in clients:
                client.finish()
            print(story.report())
            print(judge(machines, clients, story.nodes))
        story.check()
        assert machines.faults() == []


def lose_a_disk(machines: Machines) -> None:
    """Of node 3: what was there is gone, and so is the node."""
    machines.kill(3)
    shutil.rmtree(machines.data(3))
    machines.join(4)
    wait_until(lambda: member(machines, 3)["fenced"], "the lost node is fenced", step_s=0.5)
    said = machines.operator("cluster", "replace", "3", "--with", "4", "--yes")
    assert said.splitlines()[-1] == "broker 3 is forgotten"
    assert machines.votes() == [1, 2, 4]


def member(machines: Machines, number: int) -> dict[str, Any]:
    found = json.loads(machines.operator("cluster", "members", "--json"))
    return {each["id"]: each for each in found}[number]


def code_of(checkout: Path) -> dict[str, str]:
    """The environment of a process that runs it; without native leaves, which nobody has built there."""
    return {"PYTHONPATH": str(checkout / "src")}


@pytest.fixture
def older(tmp_path: Path) -> Iterator[Path]:
    """A checkout of an older commit, where this one is of git."""
    root, place = Path(__file__).parents[2], tmp_path / "older"
    git = ["git", "-C", str(root), "worktree"]
    made = subprocess.run([*git, "add", "--detach", str(place), FIRST_SECURED], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"needs the commit {FIRST_SECURED}: {made.stderr.strip()}")
    where = subprocess.run(
        [sys.executable, "-c", "import ottla; print(ottla.__file__)"],
        env={**os.environ, **code_of(place)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert where.stdout.startswith(str(place)), "the nodes would run today's code"
    yield place
    subprocess.run([*git, "remove", "--force", str(place)], check=True, capture_output=True)


def test_nodes_of_an_older_commit_become_todays_one_after_the_other(hosts: Hosts, older: Path) -> None:
    with Machines(hosts) as machines:
        machines.code = dict.fromkeys((1, 2, 3), older)
        three_voters(machines)
        with five_libraries(machines, hosts) as clients:
            story = Story(machines, clients)
            for number in story.nodes:
                with story.event(f"upgrade (node {number})"):
                    machines.kill(number, signal.SIGTERM)
                    del machines.code[number]
                    machines.again(number)
            for client in clients:
                client.finish()
            print(story.report())
            print(judge(machines, clients, story.nodes))
        story.check()
        assert machines.faults() == []
