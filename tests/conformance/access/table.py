"""All answers to all probes, as a table that can be kept and compared.

    api        versions   probe   rules                                  answer
    Fetch      4-12       consumer  all but-TOPIC-WRITE …                responses[open{0 NONE} …]

Rule sets that are answered alike share a row, and so do versions in a row for which all rows are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tests.conformance.access.probes import Probe
from tests.conformance.access.rules import rule_sets

HEADER = ("api", "versions", "probe", "rules", "answer")


class Case(NamedTuple):
    """One request of the matrix."""

    api: str
    version: int
    probe: str
    rules: str


Answers = dict[Case, str]


def ask_all(
    probes: Iterable[Probe], answer: Callable[[Probe, int, str], str], users: Callable[[Probe, int], Iterable[str]]
) -> Answers:
    """Send them one after the other."""
    return {
        Case(probe.api, version, probe.name, user): answer(probe, version, user)
        for probe in probes
        for version in probe.versions
        for user in users(probe, version)
    }


def write(path: Path, answers: Answers) -> None:
    lines = ["\t".join(HEADER)]
    order = sorted(answers, key=lambda case: (case.api, case.probe, case.version))
    for (api, probe), cases in groupby(order, key=lambda case: (case.api, case.probe)):
        by_version = {
            version: _grouped({case.rules: answers[case] for case in found})
            for version, found in groupby(cases, key=lambda case: case.version)
        }
        for versions, rows in _merged(by_version):
            lines += ["\t".join((api, versions, probe, rules, text)) for text, rules in rows]
    path.write_text("\n".join(lines) + "\n")


def _grouped(by_rules: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """(answer, rule sets); the largest group only says that it has the rest."""
    found: dict[str, list[str]] = {}
    for rules in rule_sets():
        found.setdefault(by_rules[rules], []).append(rules)
    largest = max(found, key=lambda text: len(found[text]))
    return tuple((text, "others" if text == largest else " ".join(rules)) for text, rules in found.items())


def _merged(by_version: dict[int, tuple[tuple[str, str], ...]]) -> Iterable[tuple[str, tuple[tuple[str, str], ...]]]:
    for rows, versions in groupby(by_version, key=by_version.__getitem__):
        numbers = list(versions)
        yield f"{numbers[0]}-{numbers[-1]}", rows


def read(path: Path) -> Answers:
    header, *rows = [tuple(line.split("\t")) for line in path.read_text().splitlines()]
    assert header == HEADER
    answers: Answers = {}
    for api, versions, probe, rules, text in sorted(rows, key=lambda row: row[3] != "others"):
        first, last = map(int, versions.split("-"))
        named = rule_sets() if rules == "others" else rules.split()
        answers |= {Case(api, version, probe, user): text for version in range(first, last + 1) for user in named}
    return answers
