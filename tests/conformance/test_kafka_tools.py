"""Kafka's commands in Python beside Apache's own: same words, same exit codes.

1. tests/golden/tools has what the tools of Apache Kafka 4.3.1 printed on a broker of ours, step by step; the normal run
   compares ours with it, without Java and in seconds.
2. The long test runs Apache's tools on a broker of ours, which must give what was recorded (OTTLA_UPDATE_GOLDEN=1
   records it anew).
3. Another long test runs both on a broker of Apache Kafka 4.3.1: they must say the same there too.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.group_tool_steps import GROUP_SCENARIOS, join_share_group
from tests.conformance.java_programs import jars_or_skip
from tests.conformance.kafka_broker import KafkaBroker
from tests.conformance.kafka_tools import ApacheTools, Printed, comparable, our_tool
from tests.conformance.more_tool_steps import MORE_SCENARIOS
from tests.conformance.our_broker import BrokerProcess
from tests.conformance.streams_tool_steps import STREAMS, STREAMS_PREPARES
from tests.conformance.tool_files import produce_stored, write_logs
from tests.conformance.tool_steps import FILES, FIRST_SCENARIOS, SETTINGS, Step
from tests.patience import HANG_S

SCENARIOS = FIRST_SCENARIOS | MORE_SCENARIOS | GROUP_SCENARIOS | {"streams": STREAMS}
GOLDEN = Path(__file__).parent.parent / "golden" / "tools"
UPDATE = os.environ.get("OTTLA_UPDATE_GOLDEN") == "1"
ON_KAFKA = [name for name in SCENARIOS if name not in ("files",)]
"""Those that ask a broker."""
PREPARES = {"!produce": produce_stored, "!share": join_share_group, **STREAMS_PREPARES}
"""Steps that are no commands: what they do with the cluster."""
Run = Callable[[str, list[str], str], Printed]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return written_files(tmp_path / "files")


def written_files(directory: Path) -> Path:
    """The files that command lines name."""
    directory.mkdir()
    for name, text in FILES.items():
        (directory / name).write_text(text.replace("$DIR", str(directory)))
    write_logs(directory)
    return directory


@pytest.fixture(scope="module")
def apache_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheTools]:
    with ApacheTools(jars_or_skip("4.3"), tmp_path_factory.mktemp("tools")) as tools:
        yield tools


def outcomes(steps: list[Step], run: Run, server: str, files: Path) -> list[dict[str, Any]]:
    """What every step printed, comparable."""
    places = {"$SERVER": server, "$DIR": str(files)}
    port = server.rpartition(":")[2]
    hidden = {text: name for name, text in places.items()} | {f" {port} ": " $PORT "}
    found = []
    for step in steps:
        if step.tool in PREPARES:
            PREPARES[step.tool](server)
            continue
        printed = run(step.tool, step.words(places), step.stdin)
        end = time.monotonic() + HANG_S
        while not step.is_reached(printed.out) and time.monotonic() < end:
            printed = run(step.tool, step.words(places), step.stdin)
        found.append({"step": step.line, **compared(step, comparable(printed, hidden))})
    return found


def compared(step: Step, result: dict[str, Any]) -> dict[str, Any]:
    """The part of a result that the step wants compared."""
    if step.compared == "code":
        return {"code": result["code"]}
    if step.compared == "words":
        result["out"] = sorted(" ".join(sorted(re.findall(r"[^\s,\[\]]+", line))) for line in result["out"])
        result["err"] = " ".join(sorted(re.findall(r"[^\s,\[\]]+", result["err"])))
    elif step.compared == "events":
        result["out"] = events(result["out"])
    if step.compared in ("out", "events"):
        del result["err"]
    return result


def events(lines: list[str]) -> list[str]:
    """Which events there were and what fields they have; those about one record whole, but for the time."""
    found = set()
    for line in lines:
        event = json.loads(line) if line.startswith("{") else {"name": line}
        event.pop("timestamp", None)
        whole = event["name"] in ("producer_send_success", "record_data")
        found.add(json.dumps(event if whole else {"name": event["name"], "fields": sorted(event)}))
    return sorted(found)


def kafka_settings(scenario: str) -> str:
    """Settings of a broker of Apache Kafka, as lines of its file."""
    return "auto.create.topics.enable=true\n" + "".join(
        f"{key}={text}\n" for key, text in SETTINGS.get(scenario, {}).items()
    )


def assert_same(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    different = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if mine != other]
    shown = "\n".join(f"\nours:   {json.dumps(mine)}\nApache: {json.dumps(other)}" for mine, other in different)
    assert not different, f"{len(different)} of {len(theirs)} steps differ{shown}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_our_commands_print_what_apaches_printed(scenario: str, tmp_path: Path, files: Path) -> None:
    recorded = json.loads((GOLDEN / f"{scenario}.json").read_text())
    steps = [step.line for step in SCENARIOS[scenario] if not step.line.startswith("!")]
    assert [each["step"] for each in recorded] == steps, "record it anew"
    with BrokerProcess(tmp_path / "broker", SETTINGS.get(scenario)) as broker:
        ours = outcomes(SCENARIOS[scenario], our_tool, broker.bootstrap_servers, files)
    assert_same(ours, recorded)


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_apaches_tools_print_what_was_recorded(
    scenario: str, apache_tools: ApacheTools, tmp_path: Path, files: Path
) -> None:
    with BrokerProcess(tmp_path / "broker", SETTINGS.get(scenario)) as broker:
        theirs = outcomes(SCENARIOS[scenario], apache_tools.run, broker.bootstrap_servers, files)
    if UPDATE:
        (GOLDEN / f"{scenario}.json").write_text("[\n" + ",\n".join(map(json.dumps, theirs)) + "\n]\n")
    assert_same(theirs, json.loads((GOLDEN / f"{scenario}.json").read_text()))


@pytest.mark.long
@pytest.mark.parametrize("scenario", ON_KAFKA)
def test_both_say_the_same_on_a_broker_of_apache_kafka(
    scenario: str, apache_tools: ApacheTools, tmp_path: Path
) -> None:
    steps = SCENARIOS[scenario]
    answers = []
    for name, run in (("theirs", apache_tools.run), ("ours", our_tool)):
        scratch = tmp_path / name
        scratch.mkdir()
        broker = KafkaBroker(jars_or_skip("4.3"), scratch, scratch / "data", kafka_settings(scenario))
        broker.format()
        with broker:
            answers.append(outcomes(steps, run, broker.bootstrap, written_files(scratch / "files")))
    theirs, ours = answers
    assert_same(ours, theirs)
