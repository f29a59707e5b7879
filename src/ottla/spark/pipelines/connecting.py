"""The session that a pipeline runs in: always Spark Connect, because Spark's pipelines speak nothing else.

    with open_session("clicks", master="local[*]") as spark: ...
    with open_session("clicks", remote="sc://host:15002") as spark: ...

1. With a master, this process starts Spark with a Connect server in it, on a free port of 127.0.0.1 and with a token
   made for this run: two pipelines on one machine do not disturb each other, and nobody else can connect.
2. On this machine a shuffle, and so the state of a window, has as many parts as there are cores. Spark's own 200 are a
   cluster's: here they take four times as long. A setting of the caller wins.
3. What Spark's processes write beside the results (warnings, the workers' chatter, the token) goes to a log file, not
   to the terminal. What matters to people comes as errors of ours.
"""

from __future__ import annotations

import os
import secrets
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from ottla.errors import OttlaError
from ottla.spark.doctor.facts import missing_for_pipelines
from ottla.spark.running.cores import local_cores
from ottla.spark.running.session import SETTINGS, session
from ottla.spark.running.spark_home import SparkMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
REACH_LIMIT_S: Final = 10.0


class SparkUnreachable(OttlaError):
    """No Spark Connect server answers at this address. Is it running, and is the address written as sc://host:port?"""


class PipelinePackagesMissing(OttlaError):
    """Packages are missing that pipelines need (Spark Connect does, on which they run). `pip install --upgrade
    'ottla[spark]'` brings all of them; `ottla spark doctor` lists them."""

    invalid_configuration = True


class SparkInUse(OttlaError):
    """This process has a Spark session already, and a pipeline needs one of its own. Stop it first, or use remote=."""


@contextmanager
def open_session(
    name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str],
    log: Path | None = None,
) -> Iterator[SparkSession]:
    """A Connect session, on a master of our choice or with a server that is there."""
    try:
        from pyspark import SparkContext
    except ImportError as error:
        raise SparkMissing(str(error)) from error
    if missing := missing_for_pipelines():
        raise PipelinePackagesMissing(f"there is no {', '.join(missing)}: pip install {' '.join(missing)}")
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    if remote is not None:
        _refuse_silence(remote)
        with _mode():
            spark = cast("SparkSession", ConnectSession.builder.remote(remote).create())
            try:
                for key, value in {**SETTINGS, **settings}.items():
                    spark.conf.set(key, value)
                yield spark
            finally:
                _closed(spark)
        return
    if SparkContext._active_spark_context is not None:
        raise SparkInUse
    port = _free_port()
    token = os.environ.setdefault(_TOKEN, secrets.token_hex(16))
    with _written_to(log):
        base = session(name, master=master, settings={**_server(port), **local_shuffle(master), **settings})
    try:
        with _mode():
            client = ConnectSession.builder.remote(f"sc://localhost:{port}/;token={token}").create()
            spark = cast("SparkSession", client)
            try:
                yield spark
            finally:
                _closed(spark)
    finally:
        base.stop()


@contextmanager
def _written_to(log: Path | None) -> Iterator[None]:
    """Processes that begin here write to the log what they would write to stderr: Java, and its Python workers."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _server(port: int) -> dict[str, str]:
    return {
        # Every flow starts Python processes; more at once than there are cores make each other late.
        "spark.sql.pipelines.execution.maxConcurrentFlows": str(max(2, os.cpu_count() or 2)),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.connect.serverStacktrace.enabled": "false",
    }


def local_shuffle(master: str | None) -> dict[str, str]:
    """How many parts a shuffle has on this machine; nothing for a cluster, which has its own default."""
    address = master or "local[*]"
    if not address.startswith("local"):
        return {}
    return {"spark.sql.shuffle.partitions": str(max(2, local_cores(address)))}


@contextmanager
def _mode() -> Iterator[None]:
    """pyspark.sql.functions make columns for Connect while this is set."""
    before = os.environ.get(_MODE)
    os.environ[_MODE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_MODE]


def _refuse_silence(remote: str) -> None:
    """An address where nobody is would be tried for minutes."""
    host, _, port = remote.removeprefix("sc://").partition("/")[0].partition(":")
    try:
        socket.create_connection((host, int(port or 15_002)), timeout=REACH_LIMIT_S).close()
    except (OSError, ValueError) as error:
        raise SparkUnreachable(f"{remote}: {error}") from None


def _closed(spark: SparkSession) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spark.stop()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
