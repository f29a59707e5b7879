"""The same with TLS: produce and fetch against bare servers on asyncio (uvloop) and OpenSSL.

The bare sink is that of throughput.py behind the loop's own TLS; the bare source reads a portion of a file and writes
it, because sendfile cannot encrypt. Both sides have the same certificate and the same client.
"""

from __future__ import annotations

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

CELLS: Final = (
    ("TLS, produce 16 KB, acks=1: broker / bare sink", 16_384, 1),
    ("TLS, produce 256 KB, acks=1: broker / bare sink", 262_144, 1),
)
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


def _produce(root: Path, rounds: int, papers: Papers) -> list[Figure]:
    samples: dict[str, Samples] = defaultdict(Samples)
    for number in range(rounds):
        with new_directory(root) as directory, TlsBroker(directory, papers) as broker:
            broker.create_topic(CONNECTIONS)
            for name, batch_bytes, acks in CELLS:
                for is_ours in [True, False] if number % 2 else [False, True]:
                    _add_sample(root, broker if is_ours else None, papers, batch_bytes, acks, samples[name])
    return [samples[name].figure(name, BAR) for name, _, _ in CELLS]


def _add_sample(
    root: Path, broker: TlsBroker | None, papers: Papers, batch_bytes: int, acks: int, samples: Samples
) -> None:
    if broker is not None:
        rate, cpu_us = _produce_once(broker, broker.tls_port, papers, batch_bytes, acks)
        samples.ours.append(rate)
        samples.cpu_ours.append(cpu_us)
        return
    position, answer = str(requests.records_position(batch_bytes)), requests.produce_answer().hex()
    with (
        new_directory(root) as directory,
        BareServer("sink", str(directory), position, answer, str(papers.server)) as bare,
    ):
        rate, cpu_us = _produce_once(bare, bare.port, papers, batch_bytes, acks)
    samples.theirs.append(rate)
    samples.cpu_theirs.append(cpu_us)


def _produce_once(server: Child, port: int, papers: Papers, batch_bytes: int, acks: int) -> tuple[float, float]:
    before = server.cpu_s
    seen = load("produce", port, ca=str(papers.ca), **produce_task(batch_bytes, acks))
    share = SECONDS / (SECONDS + WARM_S)
    cpu_us = (server.cpu_s - before) * share / max(1, sum(seen["answers"])) * 1e6
    return seen["bytes"] / seen["seconds"] / 1e6, cpu_us


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
