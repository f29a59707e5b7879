"""Java programs run against a broker: bounded in time, judged by exit code, their words kept.

    java = JavaPrograms(find_jars("4.3"), scratch, bootstrap_servers)
    java.tool("TopicCommand", "--create", "--topic", "orders")     # adds --bootstrap-server; gives what it printed
    java.driver("Groups", "topic", "classic")                       # tests/golden/capture/Groups.java, compiled here

A driver of tests/golden/capture prints one line per step that was refused, and goes on. `refusals` makes pairs of
(step, name of the exception) of them, to be compared with what Apache Kafka refuses.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.conformance.kafka_jars import HEAP_MB, JarsMissing, find_jars
from tests.patience import HANG_S

TOOLS = "org.apache.kafka.tools."
CAPTURE = Path(__file__).parent.parent / "golden" / "capture"
TAIL_CHARACTERS = 3000
# Programs live for seconds here: the first compiler only, one collector thread, no chatter below a warning.
JVM = [f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
REFUSAL = re.compile(r"^([\w .=-]+): (?:java\.util\.concurrent\.ExecutionException: )?([\w.$]+)(?:: |$)", re.MULTILINE)


class JavaPrograms:
    """The programs of one release, pointed at one broker."""

    def __init__(self, jars: Path, scratch: Path, bootstrap_servers: str) -> None:
        self.jars = jars
        self.servers = bootstrap_servers
        self._classes = scratch / f"classes-{jars.name}"

    def tool(self, name: str, *arguments: str, limit_s: float = HANG_S, fails: bool = False) -> str:
        """A tool of Apache Kafka by its class name; a short name means one of org.apache.kafka.tools."""
        full = name if name.startswith(("kafka.", "org.")) else TOOLS + name
        return self.run(full, "--bootstrap-server", self.servers, *arguments, limit_s=limit_s, fails=fails)

    def driver(self, name: str, *arguments: str, limit_s: float = HANG_S) -> str:
        """One of the drivers that also made the golden frames."""
        if not self._classes.is_dir():
            self._compile()
        return self.run(name, self.servers, *arguments, limit_s=limit_s)

    def command(self, main_class: str, *arguments: str) -> list[str]:
        """How a program is started, for who does that alone."""
        return ["java", *JVM, QUIET, "-cp", f"{self._classes}:{self.jars}/*", main_class, *arguments]

    def run(self, main_class: str, *arguments: str, limit_s: float = HANG_S, fails: bool = False) -> str:
        """What a program printed; it must end within `limit_s` and without a fault, or with one if `fails`."""
        try:
            done = subprocess.run(self.command(main_class, *arguments), capture_output=True, text=True, timeout=limit_s)
        except subprocess.TimeoutExpired as late:
            words = (late.stdout or b"").decode(errors="replace")[-TAIL_CHARACTERS:]
            raise AssertionError(f"{main_class} did not end within {limit_s} s: {words}") from None
        words = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, f"{main_class} ended with {done.returncode}: {words[-TAIL_CHARACTERS:]}"
        return words if fails else done.stdout

    def _compile(self) -> None:
        # Clients is written for every release; the others use what only 4.x has.
        names = ["Clients"] if self.jars.name.startswith("3.") else ["Clients", "Groups", "Administration"]
        sources = [str(CAPTURE / f"{name}.java") for name in names]
        command = ["javac", "-nowarn", "-d", str(self._classes), "-cp", f"{self.jars}/*", *sources]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
        assert done.returncode == 0, done.stderr


def jars_or_skip(line: str) -> Path:
    """The jars of a release line; where they or the compiler cannot be had, the test is skipped and says why."""
    if shutil.which("javac") is None:
        pytest.skip("needs a Java compiler, and there is no javac on this machine")
    try:
        return find_jars(line)
    except JarsMissing as reason:
        pytest.skip(str(reason))


def refusals(printed: str) -> list[tuple[str, str]]:
    """(step, exception without its package) of every step that a driver says was refused."""
    return [(step, name.rpartition(".")[2]) for step, name in REFUSAL.findall(printed)]
