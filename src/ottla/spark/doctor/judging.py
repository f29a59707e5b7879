"""What the facts about a Spark set-up mean: findings with a sentence that tells what to do. Nothing is asked here.

1. A set-up in which no task can run is known by Spark's error only; `explain` finds the cause in its text, which is
   long and in Java. What it does not know is told in Spark's own words.
2. Executors look for a Python by its name, in a PATH that begins with the directory that PYSPARK_PYTHON says
   (interpreters.py). Where it is not there they may find another one: so it is told which one was asked for.
3. Versions must be the same for ottla, because objects travel between driver and tasks; for Python the first two
   numbers, which Spark asks for. pyarrow need only be there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from ottla.client.diagnosis import Finding
from ottla.light_tuples import NamedTuple
from ottla.spark.doctor.facts import REACHED, Facts
from ottla.spark.running.versions import has_streams

WORDS_LIMIT: Final = 400
UNIX_SOCKET: Final = "spark.python.unix.domain.socket.enabled"
ARROW_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
SEND_ALONG: Final = (
    "Install ottla with pyarrow for the executors' Python, or send both along: ottla spark pack, and"
    " session(archive=...) or spark-submit --archives (docs/spark.md, Clusters)."
)
NAME_PYTHON: Final = (
    "Say where the executors have their Python: PYSPARK_PYTHON=/path/on/executors/bin/python, or the bare name python3"
    " if it is on their PATH (docs/spark.md, Clusters)."
)


class Cause(NamedTuple):
    """Why tasks cannot run, and what to do."""

    what: str
    remedy: str


_ARRIVAL: Final = re.compile(
    r"RuntimeError: ((?:ottla|the driver has ottla|\S+ on \S+ has no) .*?(?:\)\.|$))", re.MULTILINE
)
_ARRIVED_IN: Final = re.compile(r"(/\S+) on \S+(?: has|\.|:)")
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]+)"')
_NO_MODULE: Final = re.compile(r"No module named '?([\w.]+)'?")
_VERSIONS: Final = re.compile(r"different version:? \"?(\d+\.\d+)\"? than that in driver:? \"?(\d+\.\d+)\"?")
_NO_SOURCE: Final = re.compile(r"DATA_SOURCE_NOT_FOUND")


def explain(text: str, asked: str = "") -> Cause:
    """The cause in an error of Spark; `asked` is the Python that executors should have."""
    if found := _NO_PROGRAM.search(text):
        is_asked = "/" not in found[1] and PurePosixPath(asked).name == found[1]
        return Cause(f"there is no {asked if is_asked else found[1]} on the executors", NAME_PYTHON)
    if found := _VERSIONS.search(text):
        return Cause(
            f"executors have Python {found[1]} and the driver {found[2]}",
            "Spark asks for the same first two numbers. " + NAME_PYTHON,
        )
    if found := _ARRIVAL.search(text):
        place = _ARRIVED_IN.search(found[1])
        if place is not None and _is_another(place[1], asked):
            return Cause(f"executors have no {asked}, or it is {place[1]}, and {found[1]}", NAME_PYTHON)
        return Cause(found[1], "")
    if found := _NO_MODULE.search(text):
        return Cause(f"the executors' Python has no {found[1].partition('.')[0]}", SEND_ALONG)
    if "PyArrow" in text and "must be installed" in text:
        return Cause("the executors' Python has no pyarrow that Spark can use", SEND_ALONG)
    if _NO_SOURCE.search(text):
        return Cause(
            "Spark does not find ottla on the driver",
            "The Python that PYSPARK_DRIVER_PYTHON (else PYSPARK_PYTHON, else python3 of the PATH) names has no ottla:"
            " start with ottla.spark.session(), or name the Python that has it.",
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return Cause((lines or ["Spark gave no reason"])[0][:WORDS_LIMIT], "")


def _is_another(executable: str, asked: str) -> bool:
    """Whether a task ran with a Python that nobody asked for; a bare name or a relative path may be anywhere."""
    return asked.startswith("/") and PurePosixPath(executable).parent != PurePosixPath(asked).parent


def judge_driver(driver: Facts, step: str = "driver") -> list[Finding]:
    """The Python of the driver, or of the client of a Connect server."""
    words = f"Python {driver.python} ({driver.executable}), PySpark {driver.pyspark}, ottla {driver.ottla}"
    if not driver.pyarrow:
        return [Finding(step, "failed", f"{words}, no pyarrow", "pip install 'ottla[spark]'")]
    found = [Finding(step, "ok", f"{words}, pyarrow {driver.pyarrow}")]
    if not has_streams(driver.pyspark):
        remedy = "Take PySpark 4.2 or later for streams; batch queries (spark.read, df.write) work."
        found.append(
            Finding("streams", "warning", f"PySpark {driver.pyspark} has no interface for our streams", remedy)
        )
    return found


def judge_pipelines(missing: Sequence[str]) -> list[Finding]:
    """Whether `ottla pipeline` can start here; queries of format("ottla") need nothing of it."""
    if not missing:
        return [Finding("pipelines", "ok", "all that they need is installed")]
    remedy = f"pip install --upgrade 'ottla[spark]', or these alone: pip install {' '.join(missing)}"
    return [Finding("pipelines", "failed", f"there is no {', '.join(missing)} for this Python", remedy)]


def judge_settings(settings: Mapping[str, str]) -> list[Finding]:
    """Spark's own settings that make our tasks slow or fragile."""
    found = []
    if settings.get(UNIX_SOCKET, "false").lower() != "true":
        what = f"{UNIX_SOCKET} is off"
        remedy = "Over TCP every Python task waits about 40 ms. Set it to true unless executors run on Windows."
        found.append(Finding("socket", "warning", what, remedy))
    if settings.get(ARROW_BYTES, "") != str(2**31 - 1):
        what = f"{ARROW_BYTES} is not {2**31 - 1}"
        found.append(
            Finding("arrow", "warning", what, "Without it writes take twice as long; ottla.spark.session() sets it.")
        )
    if settings.get("spark.speculation", "false").lower() == "true":
        remedy = "Writes stay exactly once, but a batch may fail when a second attempt takes over; better leave it off."
        found.append(Finding("speculation", "warning", "spark.speculation is on", remedy))
    return found or [Finding("settings", "ok", "as ottla wants them")]


def judge_executors(driver: Facts, tasks: Sequence[Facts], asked: str = "") -> list[Finding]:
    """The Python processes that tasks ran in; one finding for each kind. `asked` is the Python that they should be."""
    found = []
    for each in dict.fromkeys(task._replace(brokers="") for task in tasks):
        where = f"{each.executable} on {each.host}"
        words = f"{where}: Python {each.python}, ottla {each.ottla}, pyarrow {each.pyarrow}"
        if each.ottla != driver.ottla:
            found.append(Finding("executors", "failed", words, f"The driver has ottla {driver.ottla}. {SEND_ALONG}"))
        elif _is_another(each.executable, asked):
            remedy = f"PYSPARK_PYTHON says {asked}: see whether it is there. {NAME_PYTHON}"
            found.append(Finding("executors", "warning", words, remedy))
        elif each.codec != "native" and driver.codec == "native":
            remedy = "It works and is slow. Install a wheel, or build it there with a C compiler."
            found.append(Finding("executors", "warning", f"{words}, without native code", remedy))
        else:
            found.append(Finding("executors", "ok", words))
    return found


def judge_brokers(driver: Facts, tasks: Sequence[Facts]) -> list[Finding]:
    """Whether driver and tasks reach the brokers."""
    found = []
    if driver.brokers:
        found.append(_reach("brokers from the driver", "the driver", driver.brokers))
    for host, brokers in dict.fromkeys((each.host, each.brokers) for each in tasks if each.brokers):
        found.append(_reach("brokers from tasks", host, brokers))
    return found


def _reach(step: str, host: str, brokers: str) -> Finding:
    if brokers == REACHED:
        return Finding(step, "ok", f"{host} reaches all of them")
    return Finding(
        step, "failed", f"{host}: {brokers}", "Every executor needs a way to every address that brokers advertise."
    )
