"""What others notice while one client logs in 500 times a second.

    python -m bench.logins [--logins 500] [--seconds 20]

Three processes: a broker with a SCRAM listener, a user who asks for metadata 500 times a second and whose answers are
timed, and a client that connects, logs in with SCRAM-SHA-256 and leaves. The user is timed twice, without and with the
other; the figure that counts is the ratio of the two 99th percentiles.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import hmac
import multiprocessing
import os
import statistics
import struct
import time
from typing import Any

MECHANISM, USER, PASSWORD = "SCRAM-SHA-256", "alice", "pencil"
WARM_UP_S = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.logins", description=__doc__)
    parser.add_argument("--logins", type=int, default=500)
    parser.add_argument("--asks", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    where, stop = context.Queue(), context.Event()
    broker = context.Process(target=run_broker, args=(where, stop))
    broker.start()
    port = where.get(timeout=60)
    try:
        alone = asyncio.run(timed(port, options.asks, options.seconds))
        counts = context.Queue()
        other = context.Process(target=run_logins, args=(port, options.logins, options.seconds + WARM_UP_S * 2, counts))
        other.start()
        time.sleep(WARM_UP_S)
        beside = asyncio.run(timed(port, options.asks, options.seconds))
        logins, took_s = counts.get(timeout=60)
        other.join()
    finally:
        stop.set()
        broker.join()
    show(alone, beside, logins / took_s)


def show(alone: list[float], beside: list[float], per_second: float) -> None:
    for name, times in (("alone", alone), ("beside logins", beside)):
        cuts = statistics.quantiles(times, n=1000)
        print(f"{name:14} p50 {cuts[499]:.3f} ms, p99 {cuts[989]:.3f} ms, p99.9 {cuts[998]:.3f} ms, {len(times)} asked")
    ratio = statistics.quantiles(beside, n=100)[98] / statistics.quantiles(alone, n=100)[98]
    print(f"{per_second:.0f} logins/s; the p99 of others is {ratio:.2f} times what it was")


# -- the broker -------------------------------------------------------------------------------------------------------


def run_broker(where: Any, stop: Any) -> None:
    from ottla.cluster.changes import SetScramCredential
    from ottla.cluster.model import ScramCredential, ScramKey
    from ottla.net.sasl.scram import scram_keys
    from ottla.testing import KafkaBroker

    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": MECHANISM}
    keys = scram_keys(MECHANISM, PASSWORD, salt=os.urandom(16), iterations=4096)
    kept = ScramCredential(keys.iterations, keys.salt, keys.stored_key, keys.server_key)

    async def put(server: Any) -> None:
        from ottla.cluster.plan import Plan

        await server.broker.link.change(lambda _: Plan((SetScramCredential(ScramKey(USER, 1), kept),), []))

    with KafkaBroker(settings) as broker:
        loop, server = broker._running()
        asyncio.run_coroutine_threadsafe(put(server), loop).result(60)
        where.put(int(broker.bootstrap_servers.partition(":")[2]))
        stop.wait()


# -- clients by hand: what they cost themselves must not hide what the broker costs -----------------------------------


class Client:
    """One connection that is logged in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._salted: dict[bytes, bytes] = SALTED

    async def ask(self, key: int, version: int, body: bytes) -> bytes:
        frame = struct.pack(">hhih", key, version, 1, -1) + body
        self._writer.write(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return (await self._reader.readexactly(size))[4:]

    async def log_in(self) -> None:
        await self.ask(17, 1, struct.pack(">h", len(MECHANISM)) + MECHANISM.encode())
        bare = f"n={USER},r={base64.b64encode(os.urandom(18)).decode()}"
        first = await self._step(f"n,,{bare}".encode())
        nonce, salt, count = (part.partition(b"=")[2] for part in first.split(b","))
        if salt not in self._salted:  # the same for ever: a client that hurries keeps it
            self._salted[salt] = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(salt), int(count))
        client_key = hmac.digest(self._salted[salt], b"Client Key", "sha256")
        without = b"c=biws,r=" + nonce
        spoken = b",".join((bare.encode(), first, without))
        signature = hmac.digest(hashlib.sha256(client_key).digest(), spoken, "sha256")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        final = await self._step(without + b",p=" + base64.b64encode(proof))
        assert final.startswith(b"v="), final

    async def _step(self, token: bytes) -> bytes:
        answer = await self.ask(36, 0, struct.pack(">i", len(token)) + token)
        code, message = struct.unpack_from(">hh", answer)
        assert (code, message) == (0, -1), answer
        return answer[8:]

    def close(self) -> None:
        self._writer.close()


SALTED: dict[bytes, bytes] = {}


async def connect(port: int) -> Client:
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    await client.log_in()
    return client


async def timed(port: int, per_second: int, seconds: float) -> list[float]:
    """Milliseconds of each answer."""
    client, times = await connect(port), []
    began = time.perf_counter()
    for number in range(int(per_second * seconds)):
        await asyncio.sleep(began + number / per_second - time.perf_counter())
        asked = time.perf_counter()
        await client.ask(3, 1, struct.pack(">i", 0))
        times.append((time.perf_counter() - asked) * 1000)
    client.close()
    return times


def run_logins(port: int, per_second: int, seconds: float, counts: Any) -> None:
    counts.put(asyncio.run(log_in_again_and_again(port, per_second, seconds)))


async def log_in_again_and_again(port: int, per_second: int, seconds: float) -> tuple[int, float]:
    began = time.perf_counter()
    done = 0
    while (spent := time.perf_counter() - began) < seconds:
        if done > spent * per_second:
            await asyncio.sleep(done / per_second - spent)
        (await connect(port)).close()
        done += 1
    return done, time.perf_counter() - began
