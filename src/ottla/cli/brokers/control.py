"""`ottla broker stop N` and `ottla broker start N`: what a supervisor is asked from outside, over a socket of its own.

    {"what": "stop", "broker": "1"}\n   ->   {"said": "broker 1 is stopped"}\n   or   {"failure": "there is no ..."}\n

The socket lies in the supervisor's private directory, so only whoever may end the processes anyway can ask.
brokers.json says where it is.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.brokers.status import read_status
from ottla.cli.output import Failure

if TYPE_CHECKING:
    from ottla.cli.brokers.supervisor import Supervisor

LINE_LIMIT_BYTES: Final = 4096
PATIENCE_S: Final = 90.0  # longer than a broker may take to stop


@asynccontextmanager
async def answering(supervisor: Supervisor, path: Path) -> AsyncIterator[None]:
    """Take questions at this socket meanwhile."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            found = await _answer(supervisor, await reader.readline())
            writer.write(json.dumps(found).encode() + b"\n")
            await writer.drain()
        except OSError:
            pass  # whoever asked has gone
        finally:
            writer.close()

    server = await asyncio.start_unix_server(answer, path, limit=LINE_LIMIT_BYTES)
    supervisor.status.control = str(path)
    try:
        yield
    finally:
        server.close()


async def _answer(supervisor: Supervisor, line: bytes) -> dict[str, str]:
    try:
        asked: dict[str, Any] = json.loads(line)
        what = {"stop": supervisor.keep_stopped, "start": supervisor.resume}[asked["what"]]
        return {"said": await what(str(asked["broker"]))}
    except Failure as failure:
        return {"failure": str(failure)}
    except (ValueError, LookupError, TypeError):
        return {"failure": "the supervisor does not know this question; it may be of another version"}


def ask(directory: Path, what: str, broker: str) -> str:
    """Ask the supervisor whose data is here; what it did, or Failure."""
    status = read_status(directory)
    if status is None or not status.control:
        raise Failure(f"no brokers that were started with --brokers have their data in {directory}")
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_S)
            connection.connect(status.control)
            connection.sendall(json.dumps({"what": what, "broker": broker}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                found = json.loads(answers.readline() or b'{"failure": "the supervisor ended meanwhile"}')
    except OSError as error:
        raise Failure(f"the supervisor (process {status.supervisor}) does not answer: {error}") from None
    if "failure" in found:
        raise Failure(found["failure"])
    return str(found["said"])
