"""One attack after the other on a broker in a process of its own, each measured and judged.

An attack is a function of who attacks (a client that is logged in) and of the turn. Whatever is above a limit is tried
again, as the next turn, and is a finding when it is above it every time: the limits are in processor time, but a busy
machine can still make a number too large once, and never too small.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.hostile_work.attacked_broker import CONTROLLER, USERS
from tests.patience import HANG_S
from tests.unit.broker.http.http_client import Answer, HttpClient
from tests.unit.broker.security.logins import handshake, token

from ottla.protocol.api import api_of
from ottla.protocol.header import decode_response, encode_request
from ottla.protocol.schema import Message

LOOP_LIMIT_MS = 100.0
PEAK_LIMIT_BYTES = 256 << 20
TOTAL_LIMIT_MS = 20_000.0
TURNS = 3
ANSWER_S = 5.0
ROOT = Path(__file__).parents[2]
LOGIN_ID = 7  # what logins.py gives its frames
M = TypeVar("M", bound=Message)


class Measured(NamedTuple):
    """See meter.py."""

    loop_ms: float
    loop_by: str
    others_ms: float
    collection_ms: float
    where: list[str]
    peak_bytes: int
    total_ms: float

    @property
    def problems(self) -> list[str]:
        found = []
        if self.loop_ms > LOOP_LIMIT_MS:
            found.append(f"held the loop for {self.loop_ms:.0f} ms of CPU")
        if self.others_ms > LOOP_LIMIT_MS:
            found.append(f"kept the interpreter's lock from the loop for {self.others_ms:.0f} ms of CPU in a thread")
        if self.peak_bytes > PEAK_LIMIT_BYTES:
            found.append(f"took {self.peak_bytes >> 20} MiB of memory")
        if self.total_ms > TOTAL_LIMIT_MS:
            found.append(f"made work of {self.total_ms:.0f} ms of CPU")
        return found

    def slower_by(self, factor: float) -> Measured:
        """The times as they were on a machine that is not slower by this factor."""
        return self._replace(
            loop_ms=self.loop_ms / factor, others_ms=self.others_ms / factor, total_ms=self.total_ms / factor
        )

    def __str__(self) -> str:
        numbers = f"loop {self.loop_ms:.0f} ms, others {self.others_ms:.0f} ms, total {self.total_ms:.0f} ms"
        return f"{numbers}, collection {self.collection_ms:.0f} ms, peak {self.peak_bytes >> 20} MiB"


class WireClient:
    """Speaks Kafka's protocol to a broker, politely only as far as the framing."""

    def __init__(self, address: tuple[str, int], user: str | None) -> None:
        self._socket = socket.create_connection(address, timeout=HANG_S)
        self._correlation_id = 100
        if user is not None:
            self._log_in(user)

    def _log_in(self, user: str) -> None:
        self.send(bytes(handshake("PLAIN", 1)))
        self.receive()
        self.send(bytes(token(f"\0{user}\0{USERS[user]}".encode(), 1)))
        answer = self.receive()
        assert (answer or b"")[4:6] == b"\0\0", f"the login of {user} was refused: {answer!r}"

    def send(self, content: bytes) -> None:
        """A frame. Who closes in the middle of it has answered."""
        with contextlib.suppress(OSError):
            self._socket.sendall(struct.pack(">i", len(content)) + content)

    def receive(self, limit_s: float = HANG_S) -> bytes | None:
        """The next frame; None when the broker has closed, or says nothing for so long."""
        self._socket.settimeout(limit_s)
        try:
            head = self._exactly(4)
            return None if head is None else self._exactly(struct.unpack(">i", head)[0])
        except OSError:
            return None

    def _exactly(self, count: int) -> bytes | None:
        found = bytearray()
        while len(found) < count:
            piece = self._socket.recv(min(count - len(found), 1 << 20))
            if not piece:
                return None
            found += piece
        return bytes(found)

    def ask(self, request: M, version: int | None = None, limit_s: float = HANG_S) -> Any:
        """The answer to a request as a message; None when there is none."""
        api = api_of(request)
        version = api.advertised.max if version is None else version
        self._correlation_id += 1
        self.send(
            b"".join(
                map(
                    bytes,
                    encode_request(request, version=version, correlation_id=self._correlation_id, client_id="attack"),
                )
            )
        )
        answer = self.receive(limit_s)
        if answer is None:
            return None
        return decode_response(api, version, answer)[1]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Attacked:
    """The broker; `with` starts and ends it."""

    def __init__(self, directory: Path, *planted: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self._is_open = CONTROLLER in planted
        self._log = (directory / "broker.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile_work.attacked_broker", str(directory / "data"), *planted],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=ROOT,
            env=environment,
            text=True,
        )
        try:
            said = self._heard()
        except AssertionError:
            self.close()
            raise
        self.kafka: tuple[str, int] = (said["kafka"][0], said["kafka"][1])
        self.admin: tuple[str, int] = tuple(said["admin"])
        self.registry: tuple[str, int] = tuple(said["parts"].get("schema registry", ()))
        self._unit_ms = min(float(self.tell("unit")["unit_ms"]) for _ in range(5))
        self._http: dict[tuple[tuple[str, int], str], HttpAttacker] = {}

    def _heard(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise AssertionError(f"the broker has ended with {self._process.wait(HANG_S)}: {self._log.read()[-3000:]}")
        return json.loads(line)

    def tell(self, command: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._heard()

    def wire(self, user: str | None) -> WireClient:
        return WireClient(self.kafka, None if self._is_open else user)

    def http(self, address: tuple[str, int], user: str) -> HttpAttacker:
        if (address, user) not in self._http:
            self._http[address, user] = HttpAttacker(address, user)
        return self._http[address, user]

    def measure(self, act: Callable[[int], None]) -> Measured:
        """The act, repeated while it is above a limit; of all turns the smallest numbers."""
        best: Measured | None = None
        for turn in range(TURNS):
            self.tell("begin")
            act(turn)
            measured = Measured(**self.tell("end"))
            if measured.problems:
                measured = measured.slower_by(self._slowness())
            if best is None or len(measured.problems) <= len(best.problems):
                best = measured
            if not measured.problems:
                break
        assert best is not None
        return best

    def _slowness(self) -> float:
        """How much slower this machine is now than when it was left alone."""
        unit_ms = float(self.tell("unit")["unit_ms"])
        self._unit_ms = min(self._unit_ms, unit_ms)
        return unit_ms / self._unit_ms

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    @property
    def errors(self) -> str:
        """What the broker said about itself."""
        self._log.flush()
        return Path(self._log.name).read_text()

    def __enter__(self) -> Attacked:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class HttpAttacker(HttpClient):
    """Who calls routes of one address, logged in."""

    def __init__(self, address: tuple[str, int], user: str) -> None:
        self.host, self.port = address
        self.cookie = self.token = ""
        answer = self.log_in(user, USERS[user])
        assert answer.status == 200, answer

    def call(
        self, method: str, target: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer | None:
        """The answer to a request whose target is sent as it is; None when the broker closed instead."""
        import http.client

        connection = http.client.HTTPConnection(self.host, self.port, timeout=HANG_S)
        sent = {
            "Cookie": self.cookie,
            "Content-Type": "application/json",
            "X-Ottla-Token": self.token,
            **(headers or {}),
        }
        try:
            connection.request(method, target, body=body, headers=sent)
            return Answer(connection.getresponse())
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


def findings(attacked: Attacked, attacks: Iterator[tuple[str, Callable[[int], None]]]) -> list[str]:
    """What was above a limit, one line for each attack."""
    found = []
    for name, act in attacks:
        measured = attacked.measure(act)
        if os.environ.get("OTTLA_HOSTILE_SHOWN"):
            print(f"{name}: {measured}", file=sys.stderr, flush=True)
        if problems := measured.problems:
            where = "".join(f"\n    {line}" for line in measured.where)
            found.append(f"{name} {' and '.join(problems)}: {measured.loop_by}{where}")
    return found


__all__ = ["ANSWER_S", "Attacked", "HttpAttacker", "Measured", "WireClient", "findings"]
