"""Apache Kafka itself, for tests in which it is the judge: its jars, fetched once with Maven and kept.

    jars = find_jars("4.3")              # a directory of jars; JarsMissing says why there is none
    find_jars("4.3", "streams")          # those of Kafka Streams with its own test programs
    find_jars("4.3", "shell")            # its metadata shell
    find_jars("spark-4.3", "spark")      # Spark's own connector for Kafka
    find_jars("jmx", "jmx")              # the agent that shows a broker's MBeans to Prometheus
    find_jars("delta", "delta")          # Delta Lake, for Spark 4.2
    find_jars("registry", "registry")    # Confluent's Java client and Avro serializers for a schema registry
    java_command(jars, "kafka.Kafka", "server.properties")

1. The releases are pinned in RELEASES and CONNECTORS, so a test means the same tomorrow. pom.xml beside this file names
   the parts of a broker and its tools, streams_pom.xml those of Kafka Streams, shell_pom.xml those of the metadata
   shell, spark_pom.xml those of the connector, registry_pom.xml those of registry clients, delta_pom.xml Delta Lake.
2. Jars are kept in <the user's cache>/ottla/kafka/<release>[-<part>], never in the repository. Such a directory is
   complete: it is filled under another name and renamed, so that tests running side by side can all ask for it.
3. Where there is no Java, no Maven or no way to the jars, JarsMissing says which; a test skips itself with that
   sentence. A download that failed once is not tried again in the same run.
"""

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

RELEASES = {"3.9": "3.9.2", "4.3": "4.3.1"}
CONNECTORS = {"spark-4.3": "4.2.0"}  # releases of Spark, whose connector is a peer and no broker
TABLES = {"delta": "4.4.0"}  # the format whose tables pipelines write by key
AGENTS = {"jmx": "0.20.0"}  # the last release whose names are those of the dashboards that people have
REGISTRY_CLIENTS = {"registry": "1.5.0"}  # a release of Apache Pinot; the serializers in it are Confluent's 7.9.5
DOWNLOAD_LIMIT_S = 600
HEAP_MB = 256
POMS = {
    "broker": Path(__file__).with_name("pom.xml"),
    "streams": Path(__file__).with_name("streams_pom.xml"),
    "shell": Path(__file__).with_name("shell_pom.xml"),
    "spark": Path(__file__).with_name("spark_pom.xml"),
    "delta": Path(__file__).with_name("delta_pom.xml"),
    "jmx": Path(__file__).with_name("jmx_pom.xml"),
    "registry": Path(__file__).with_name("registry_pom.xml"),
}


class JarsMissing(Exception):
    """Apache Kafka cannot be had on this machine."""


def cache_directory() -> Path:
    """Where jars are kept, on this machine and for this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla" / "kafka"


def find_jars(line: str, part: str = "broker") -> Path:
    """The jars of a release line ("3.9", "4.3"), from the cache or with Maven."""
    found = _find_once(line, part)
    if isinstance(found, JarsMissing):
        raise found
    return found


@functools.cache
def _find_once(line: str, part: str) -> Path | JarsMissing:
    if shutil.which("java") is None:
        return JarsMissing("needs Apache Kafka, and there is no java on this machine")
    release = (RELEASES | CONNECTORS | TABLES | AGENTS | REGISTRY_CLIENTS)[line]
    wanted = cache_directory() / (release + ("" if part == "broker" else f"-{part}"))
    try:
        if not wanted.is_dir():
            _download(release, wanted, POMS[part])
    except JarsMissing as reason:
        return reason
    return wanted


def java_command(jars: Path, main_class: str, *arguments: str) -> list[str]:
    """How to run a class of those jars, in little memory."""
    return ["java", f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-cp", f"{jars}/*", main_class, *arguments]


def _download(release: str, wanted: Path, pom: Path) -> None:
    if shutil.which("mvn") is None:
        raise JarsMissing(f"needs the jars of Apache Kafka {release} in {wanted}, and there is no mvn to fetch them")
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wanted.parent) as scratch:
        filled = Path(scratch) / "jars"
        _run_maven(release, filled, pom)
        if not wanted.is_dir():
            filled.rename(wanted)


def _run_maven(release: str, directory: Path, pom: Path) -> None:
    goal = "dependency:copy" if pom == POMS["registry"] else "dependency:copy-dependencies"
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(pom), goal]
    # Kafka 3 brings a second logger, and two of them complain about each other.
    groups = ["-DincludeGroupIds=io.delta"] if pom == POMS["delta"] else []
    parts = ["-DincludeScope=runtime", *groups, "-DexcludeArtifactIds=slf4j-reload4j"]
    options = [f"-Drelease={release}", f"-DoutputDirectory={directory}", *parts]
    try:
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise JarsMissing(f"Maven did not fetch Apache Kafka {release} within {DOWNLOAD_LIMIT_S} s") from None
    if done.returncode:
        raise JarsMissing(f"Maven could not fetch Apache Kafka {release}: {(done.stdout + done.stderr)[-400:].strip()}")
