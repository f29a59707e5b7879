"""Connections with TLS that come and go as fast as a client can make them: nothing is left, and others are served.

1. A process of its own opens connections, one after the other: most end their handshake, ask one question and leave;
   some leave in the middle of the handshake, with a reset, or say something that is no TLS.
2. When they are gone, memory and open files of the broker are what they were after the first of them.
3. Others, over TLS and without, are answered all the time.
4. What a connection costs the broker while there are no others is printed, in CPU time: that depends little on the
   neighbours, and a thousand milliseconds of it are all that one core has. It is judged by a bound far above it.

`make test` has SHORT connections; the marked test goes on for LONG_S.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from tests.conformance.our_broker import free_ports
from tests.conformance.test_hostile import (
    MIB,
    MeasuredBroker,
    Others,
    crowd,
    eventually,
    open_files,
    received,
    send,
)
from tests.patience import HANG_S
from tests.unit.net.tls_files import TlsFiles

SHORT, LONG_S = 250, 120
HALF = 500
WARM = 150
MEMORY_LIMIT_BYTES = 4 * MIB
FILES_SLACK = 4
CPU_LIMIT_MS = 50.0  # of the broker for one connection

CHURNS = """
import socket, ssl, struct, sys, time
port, authority, count, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
context = ssl.create_default_context(cafile=authority)
ask = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
done, end = 0, time.monotonic() + seconds
while done < count and time.monotonic() < end:
    plain = socket.create_connection(("127.0.0.1", port), timeout=120)
    kind = done % 20
    if kind == 7:  # gone in the middle of its hello
        plain.sendall(bytes.fromhex("16030100f8010000f40303"))
    elif kind == 13:  # no TLS at all
        plain.sendall(ask)
        plain.recv(100)
    else:
        with context.wrap_socket(plain, server_hostname="localhost") as link:
            link.sendall(ask)
            assert link.recv(4)
            if kind == 17:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.close()
    done += 1
print(done)
"""


class TlsBroker(MeasuredBroker):
    """A broker process with two listeners: one with TLS, and one without for those who look on."""

    def __init__(self, scratch: Path) -> None:
        self.files = TlsFiles(scratch)
        (self.tls_port,) = free_ports(1)
        tls = self.files.broker_settings()
        del tls["security.inter.broker.protocol"], tls["listeners"]
        settings = {name: str(value) for name, value in tls.items()}
        super().__init__(scratch, settings, listeners=f"SSL://127.0.0.1:{self.tls_port}")

    def cpu_ms(self) -> float:
        fields = Path(f"/proc/{self.id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def churn(self, count: int, seconds: float = 1e9) -> int:
        """How many connections came and went."""
        command = [sys.executable, "-c", CHURNS, str(self.tls_port), str(self.files.ca), str(count), str(seconds)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


class OthersWithTls:
    """One connection that asks again and again, and one that is made anew each time; counts the answers."""

    def __init__(self, broker: TlsBroker) -> None:
        self._address = ("127.0.0.1", broker.tls_port)
        self._context = ssl.create_default_context(cafile=broker.files.ca)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.answered = 0

    def _connect(self) -> ssl.SSLSocket:
        return self._context.wrap_socket(
            socket.create_connection(self._address, timeout=HANG_S), server_hostname="localhost"
        )

    def _ask(self, link: ssl.SSLSocket) -> None:
        link.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        size, seen = int.from_bytes(link.recv(4)), 0
        while seen < size:
            seen += len(link.recv(size - seen))
        self.answered += 1

    def _work(self) -> None:
        with self._connect() as kept:
            while not self._over.wait(0.02):
                self._ask(kept)
                with self._connect() as fresh:
                    self._ask(fresh)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(HANG_S)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    with TlsBroker(tmp_path_factory.mktemp("churn")) as broker:
        yield broker


def come_and_go(broker: TlsBroker, count: int, seconds: float = 1e9) -> None:
    assert broker.churn(WARM) == WARM
    cost_ms = cost_of_one_ms(broker)
    assert eventually(lambda: open_files(broker.id) < 60)
    before_bytes, open_before = broker.resident_bytes(), open_files(broker.id)
    began_s = time.monotonic()
    with Others(broker.bootstrap_servers) as plain, OthersWithTls(broker) as encrypted:
        made = broker.churn(count, seconds)
    spent_s = time.monotonic() - began_s
    waits_ms = sorted(each * 1000 for each in plain.waits_s)
    grown_bytes = broker.resident_bytes() - before_bytes
    print(
        f"\n{made} connections in {spent_s:.0f} s, {made / spent_s:.0f}/s; alone {cost_ms:.2f} ms of CPU each, so "
        f"{1000 / cost_ms:.0f}/s are a core; others: {len(waits_ms)} answers without TLS, p99 "
        f"{waits_ms[len(waits_ms) * 99 // 100]:.1f} ms, longest {waits_ms[-1]:.0f} ms, {encrypted.answered} with TLS; "
        f"memory {grown_bytes / MIB:+.1f} MiB"
    )
    assert made == count or seconds < 1e9
    assert plain.answered == len(plain.waits_s)
    assert encrypted.answered > 2
    assert eventually(lambda: open_files(broker.id) <= open_before + FILES_SLACK)
    assert grown_bytes <= MEMORY_LIMIT_BYTES
    assert cost_ms < CPU_LIMIT_MS
    assert broker.faults() == []


def cost_of_one_ms(broker: TlsBroker) -> float:
    before_ms = broker.cpu_ms()
    made = broker.churn(WARM)
    return (broker.cpu_ms() - before_ms) / made


def test_connections_that_come_and_go_leave_nothing_and_others_are_served(broker: TlsBroker) -> None:
    come_and_go(broker, SHORT)


@pytest.mark.long
def test_minutes_of_connections_that_come_and_go_leave_nothing(broker: TlsBroker) -> None:
    come_and_go(broker, 10**9, LONG_S)


@pytest.mark.long
def test_handshakes_that_never_end_are_ended_and_others_are_served(broker: TlsBroker) -> None:
    """As many as a machine gives: each says the first bytes of a hello, and nothing else."""
    open_before = open_files(broker.id)
    with crowd(f"127.0.0.1:{broker.tls_port}", HALF) as half:
        for link in half:
            send(link, bytes.fromhex("16030100f8010000f40303"))
        with Others(broker.bootstrap_servers) as plain, OthersWithTls(broker) as encrypted:
            assert [received(link) for link in half] == [b""] * HALF
    assert plain.answered > 100
    assert encrypted.answered > 10
    assert eventually(lambda: open_files(broker.id) <= open_before + FILES_SLACK)
