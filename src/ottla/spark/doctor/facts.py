"""What one Python process of Spark can say of itself: versions, interpreter, and whether it reaches the brokers.

    facts = collect_facts({"bootstrap.servers": "localhost:9092"})

1. Nothing raises here: a version that is missing is an empty text, a broker that cannot be reached is a sentence.
2. Brokers are asked as a client asks them, with login and TLS, and every advertised address is tried: a task that
   reaches the bootstrap server and not the others fails later. Nothing is written.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.records import CHOSEN

BROKER_STEP_S: Final = 5.0
UNIX_SOCKET_VARIABLE: Final = "PYTHON_UNIX_DOMAIN_ENABLED"
"""How Spark tells a worker that it speaks over a Unix socket."""
REACHED: Final = "ok"
PIPELINE_MODULES: Final = {
    "pandas": "pandas",
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.protobuf": "protobuf",
    "google.rpc": "googleapis-common-protos",
    "zstandard": "zstandard",
    "yaml": "PyYAML",
}
"""What a pipeline imports on the driver beside PySpark and pyarrow (Spark Connect does), by the package that has it."""


class Facts(NamedTuple):
    """One process. `brokers` is empty when none were asked for, "ok", or what is wrong."""

    host: str
    executable: str
    python: str
    ottla: str
    pyarrow: str
    pyspark: str
    codec: str
    unix_socket: bool
    brokers: str = ""


COLUMNS: Final = (
    "host string, executable string, python string, ottla string, pyarrow string, pyspark string, codec string,"
    " unix_socket boolean, brokers string"
)


def collect_facts(client: Mapping[str, object]) -> Facts:
    """Of this process; brokers are asked when `client` names some."""
    return Facts(
        host=platform.node(),
        executable=sys.executable,
        python=platform.python_version(),
        ottla=_version("ottla"),
        pyarrow=_version("pyarrow"),
        pyspark=_version("pyspark"),
        codec=CHOSEN,
        unix_socket=os.environ.get(UNIX_SOCKET_VARIABLE, "").lower() == "true",
        brokers=ask_brokers(client) if client.get("bootstrap.servers") else "",
    )


def missing_for_pipelines() -> list[str]:
    """The packages without which a pipeline does not start here."""
    return [package for module, package in PIPELINE_MODULES.items() if not _version(module)]


def _version(name: str) -> str:
    try:
        return str(getattr(import_module(name), "__version__", "unknown"))
    except ImportError:
        return ""


def ask_brokers(client: Mapping[str, object], step_s: float = BROKER_STEP_S) -> str:
    """What is wrong with the connection to the brokers from here: the first thing that failed, with its remedy."""
    from ottla.client.doctor import examine
    from ottla.errors import OttlaError

    async def first_failure() -> str:
        async for finding in examine(client, timeout=step_s):
            if finding.result == "failed":
                return f"{finding.step}: {finding.what}. {finding.remedy}".strip()
        return REACHED

    try:
        return asyncio.run(first_failure())
    except (OttlaError, OSError) as error:
        return str(error) or type(error).__name__
