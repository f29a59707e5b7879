"""The same with TLS: produce and fetch against bare servers on asyncio (uvloop) and OpenSSL.

The bare sink is that of throughput.py behind the loop's own TLS; it looks at no record. The bare log does with every
batch what the broker must, with the broker's own leaves (bare.py). The bare source reads a portion of a file and writes
it, because sendfile cannot encrypt. All sides have the same certificate and the same client.

What TLS itself costs is the server's CPU per request with TLS less that without it; "extra CPU" compares that of the
bare sink with that of the broker, so that the distance to a sink shows what part of it is TLS.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path
from typing import Final

from bench.walk import requests
from bench.walk.figures import Figure
from bench.walk.processes import AnsweringServer, BareServer, Child, ask, broker_settings, free_port, load
from bench.walk.throughput import (
    CONNECTIONS,
    FETCH_BYTES,
    SECONDS,
    WARM_S,
    Samples,
    new_directory,
    produce_task,
)

SIZES: Final = (("16 KB", 16_384), ("256 KB", 262_144))
BAR: Final = 0.9


class Papers:
    """A certificate for localhost and the authority above it, as files."""

    def __init__(self, directory: Path) -> None:
        from ottla.net.tls.authority import Authority

        authority = Authority.make("walk")
        self.ca, self.server = directory / "ca.pem", directory / "server.pem"
        self.ca.write_text(authority.pem)
        self.server.write_text(authority.issue("localhost", hosts=["localhost", "127.0.0.1"]).pem)


class TlsBroker(AnsweringServer):
    """`ottla broker start` with a plain listener for questions and one with TLS for the load."""

    def __init__(self, directory: Path, papers: Papers) -> None:
        port, self.tls_port = free_port(), free_port()
        settings = (
            f"listeners=PLAINTEXT://127.0.0.1:{port},SSL://127.0.0.1:{self.tls_port}",
            *("ottla.durability=replicated", "ottla.admin.listener=", "ssl.keystore.type=PEM"),
            f"ssl.keystore.location={papers.server}",
            *broker_settings,
        )
        pairs = [f"--set={each}" for each in settings]
        super().__init__(port, "ottla", "broker", "start", "--data", str(directory), *pairs)

    def create_topic(self, partitions: int) -> None:
        ask(self.port, requests.create_topic(partitions))


def encrypted(root: Path, rounds: int) -> list[Figure]:
    with new_directory(root) as directory:
        papers = Papers(directory)
        return [*_produce(root, rounds, papers), _fetch(root, rounds, papers)]


class Cell:
    """One size of batches: what the broker, a bare sink and a bare log did with them, with and without TLS."""

    def __init__(self, name: str, batch_bytes: int, papers: Papers) -> None:
        self._name = name
        self._batch_bytes = batch_bytes
        self._papers = papers
        self._rates: dict[tuple[str, bool], list[float]] = defaultdict(list)
        self._cpus: dict[tuple[str, bool], list[float]] = defaultdict(list)

    def add_round(self, root: Path, broker: TlsBroker, *, is_reversed: bool) -> None:
        sides = [("broker", True), ("sink", True), ("log", True), ("broker", False), ("sink", False)]
        for side, is_encrypted in reversed(sides) if is_reversed else sides:
            self._add(root, broker, side, is_encrypted=is_encrypted)

    def _add(self, root: Path, broker: TlsBroker, side: str, *, is_encrypted: bool) -> None:
        if side == "broker":
            port = broker.tls_port if is_encrypted else broker.port
            rate, cpu_us = self._once(broker, port, is_encrypted=is_encrypted)
        else:
            with new_directory(root) as directory, self._bare(side, directory, is_encrypted=is_encrypted) as bare:
                rate, cpu_us = self._once(bare, bare.port, is_encrypted=is_encrypted)
        self._rates[side, is_encrypted].append(rate)
        self._cpus[side, is_encrypted].append(cpu_us)

    def _bare(self, side: str, directory: Path, *, is_encrypted: bool) -> BareServer:
        pem = [str(self._papers.server)] if is_encrypted else []
        if side == "log":
            return BareServer("log", str(directory), str(requests.BODY_AT), *pem)
        position, answer = str(requests.records_position(self._batch_bytes)), requests.produce_answer().hex()
        return BareServer("sink", str(directory), position, answer, *pem)

    def _once(self, server: Child, port: int, *, is_encrypted: bool) -> tuple[float, float]:
        """MB/s, and microseconds of the server's CPU per request."""
        more = {"ca": str(self._papers.ca)} if is_encrypted else {}
        before = server.cpu_s
        seen = load("produce", port, **more, **produce_task(self._batch_bytes, 1))
        share = SECONDS / (SECONDS + WARM_S)
        cpu_us = (server.cpu_s - before) * share / max(1, sum(seen["answers"])) * 1e6
        return seen["bytes"] / seen["seconds"] / 1e6, cpu_us

    @property
    def figures(self) -> list[Figure]:
        return [self._beside("sink", "bare sink"), self._beside("log", "bare log"), self._extra()]

    def _beside(self, side: str, name: str) -> Figure:
        samples = Samples()
        samples.ours, samples.theirs = self._rates["broker", True], self._rates[side, True]
        samples.cpu_ours, samples.cpu_theirs = self._cpus["broker", True], self._cpus[side, True]
        return samples.figure(f"TLS, produce {self._name}, acks=1: broker / {name}", BAR)

    def _extra(self) -> Figure:
        """What TLS adds. The differences are small ones of large figures, so they are those of the medians."""
        cpus = {each: statistics.median(found) for each, found in self._cpus.items()}
        ours = cpus["broker", True] - cpus["broker", False]
        theirs = cpus["sink", True] - cpus["sink", False]
        how = (
            f"{theirs:.0f} / {ours:.0f} us per request; with and without: "
            f"broker {cpus['broker', True]:.0f} and {cpus['broker', False]:.0f}, "
            f"sink {cpus['sink', True]:.0f} and {cpus['sink', False]:.0f}"
        )
        name = f"extra CPU for TLS, produce {self._name}: bare sink / broker"
        return Figure(name, theirs / max(ours, 1e-9), how, at_least=BAR)


def _produce(root: Path, rounds: int, papers: Papers) -> list[Figure]:
    cells = [Cell(name, batch_bytes, papers) for name, batch_bytes in SIZES]
    for number in range(rounds):
        with new_directory(root) as directory, TlsBroker(directory, papers) as broker:
            broker.create_topic(CONNECTIONS)
            for cell in cells:
                cell.add_round(root, broker, is_reversed=bool(number % 2))
    return [figure for cell in cells for figure in cell.figures]


def _fetch(root: Path, rounds: int, papers: Papers) -> Figure:
    samples = Samples()
    with new_directory(root) as directory, TlsBroker(directory, papers) as broker:
        broker.create_topic(CONNECTIONS)
        load("produce", broker.port, **produce_task(16_384, 1))
        segment = next(directory.glob(f"{requests.TOPIC}-0/*.log"))
        with BareServer("source", str(segment), str(FETCH_BYTES), str(papers.server)) as bare:
            for _ in range(rounds):
                _fetch_once(broker, broker.tls_port, papers, samples.ours, samples.cpu_ours)
                _fetch_once(bare, bare.port, papers, samples.theirs, samples.cpu_theirs)
    return samples.figure("TLS, fetch 1 MB at a time, 1 consumer: broker / bare source", BAR)


def _fetch_once(server: Child, port: int, papers: Papers, rates: list[float], cpus: list[float]) -> None:
    before = server.cpu_s
    task = {"fetch_bytes": FETCH_BYTES, "partition": 0, "warm_s": WARM_S, "seconds": SECONDS}
    seen = load("fetch", port, ca=str(papers.ca), **task)
    share = SECONDS / (SECONDS + WARM_S)
    rates.append(seen["bytes"] / seen["seconds"] / 1e6)
    cpus.append((server.cpu_s - before) * share / seen["bytes"] * FETCH_BYTES * 1e6)
