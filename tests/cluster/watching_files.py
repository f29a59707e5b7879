"""The files for who watches a cluster: every expression of the dashboard and of the alert rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
DASHBOARD = DEPLOY / "grafana" / "ottla.json"
RULES = DEPLOY / "prometheus" / "rules.yml"
CONFIG = DEPLOY / "prometheus" / "prometheus.yml"
VARIABLES = {
    "$__rate_interval": "30s",
    "$job": ".*",
    "$instance": ".*",
    "$topic": ".*",
    "$request": ".*",
    "$group": ".*",
}
NAME = re.compile(r"\b(?:kafka|kminion|ottla|process)_[a-z0-9_]+\b|\bup\b")


def dashboard() -> dict[str, Any]:
    board: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return board


def panels() -> list[dict[str, Any]]:
    return [each for each in dashboard()["panels"] if each["type"] != "row"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Where it stands, and the expression with its variables filled in."""
    for panel in panels():
        for target in panel["targets"]:
            yield f"panel {panel['title']}", _filled(target["expr"])
    for rule in rules():
        yield f"alert {rule['alert']}", _filled(rule["expr"])


def _filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def names_in(expression: str) -> set[str]:
    """The metrics that it names."""
    without_labels = re.sub(r"\{[^{}]*\}", "", expression)
    without_grouping = re.sub(r"\b(?:by|on|without|group_left|group_right) *\([^()]*\)", "", without_labels)
    return set(NAME.findall(without_grouping))


def selector(expression: str) -> str:
    """The part of an alert's expression that is compared: without the comparison it has data when all is well."""
    return re.sub(r" *(?:>|<|==|!=) *[0-9.]+(?: *$| (?=and ))", " ", expression.strip()).strip()
