"""Pages that are written by the code: settings with effect and default, commands, errors, APIs, metrics."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Page = str


def pages() -> dict[str, Page]:
    """Path and text of each, but for the metrics, which a running broker tells."""
    return {
        "reference/settings-broker.md": settings_page("Broker settings", _broker_settings()),
        "reference/settings-topic.md": settings_page("Topic settings", _topic_settings()),
        "reference/settings-client.md": client_page(),
        "reference/errors.md": errors_page(),
        "reference/apis.md": apis_page(),
        **command_pages(),
    }


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def _cell(value: object) -> str:
    return "" if value is None else re.sub(r"\s+", " ", str(value)).replace("|", "\\|").replace("<", "&lt;")


def code(value: object) -> str:
    text = str(value)
    return f"`{text}`" if text else ""


# --- settings --------------------------------------------------------------------------------------------------------


def _broker_settings() -> Sequence[Any]:
    from ottla.broker.settings import BrokerSettings

    return BrokerSettings.declared()


def _topic_settings() -> Sequence[Any]:
    from ottla.storage.settings import TopicSettings

    return TopicSettings.declared()


def setting_rows(settings: Iterable[Any]) -> Iterator[Sequence[object]]:
    from ottla.settings import REQUIRED

    for each in sorted(settings, key=lambda each: each.name):
        default = "required" if each.default is REQUIRED else code(each.text(each.default))
        effect = "yes" if each.no_effect is None else f"none: {each.no_effect.sentence}"
        yield code(each.name), default, each.dynamic or "no", effect, each.doc


HEADINGS = ("name", "default", "while running", "effect", "what it does")


def settings_page(title: str, settings: Sequence[Any]) -> Page:
    note = "Names are Kafka's. *While running* says whether it can change without a restart, and for whom."
    return f"# {title}\n\n{len(settings)} settings. {note}\n\n{table(HEADINGS, setting_rows(settings))}"


def client_page() -> Page:
    from ottla.client.admin.settings import AdminSettings
    from ottla.client.consumer.settings import ConsumerSettings
    from ottla.client.producer.settings import ProducerSettings
    from ottla.client.settings import ClientSettings

    common = {each.name for each in ClientSettings.declared()}
    parts = ["# Client settings\n", "Dotted names, or the same as keywords with underscores.\n"]
    kinds = (("Every client", ClientSettings), ("Producer", ProducerSettings), ("Consumer", ConsumerSettings))
    for title, kind in (*kinds, ("Admin", AdminSettings)):
        own = [each for each in kind.declared() if kind is ClientSettings or each.name not in common]
        rows = ((name, default, effect, doc) for name, default, _, effect, doc in setting_rows(own))
        if own:
            parts.append(f"## {title}\n\n{table(('name', 'default', 'effect', 'what it does'), rows)}")
    return "\n".join(parts)


# --- errors and APIs -------------------------------------------------------------------------------------------------


def errors_page() -> Page:
    from ottla import errors

    found = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.OttlaError)]
    coded = sorted(
        {each for each in found if issubclass(each, errors.BrokerError) and "code" in vars(each)},
        key=lambda each: each.code,
    )
    rows = [
        (each.code, code(each.name), code(each.__name__), "yes" if each.retriable else "", _first(each.__doc__))
        for each in coded
        if each is not errors.BrokerError
    ]
    others = [(code(each.__name__), _first(each.__doc__)) for each in found if each not in coded]
    return (
        "# Errors\n\nEach error of Kafka is a class of `ottla.errors`, with `.code`, `.retriable` and a sentence that"
        f" says what to do.\n\n{table(('code', 'name', 'class', 'retriable', 'what it means'), rows)}\n"
        f"## Errors without a code\n\n{table(('class', 'what it means'), sorted(others))}"
    )


def _first(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


def apis_page() -> Page:
    from ottla.broker.requests.served import BROKER_APIS, CLUSTER_APIS
    from ottla.protocol.api import APIS

    rows = []
    for key in sorted(APIS):
        api = APIS[key]
        served = "brokers only" if key in BROKER_APIS else "yes" if key in CLUSTER_APIS else "client only"
        advertised = f"{api.advertised.min} to {api.advertised.max}"
        rows.append((key, api.name, advertised, f"{api.flexible_since}", served))
    return (
        "# APIs\n\nWhat is spoken, and what a broker serves. Which access each needs:"
        " [access rules](../access-rules.md).\n\n" + table(("key", "API", "versions", "flexible since", "served"), rows)
    )


# --- commands --------------------------------------------------------------------------------------------------------


def command_pages() -> dict[str, Page]:
    """One page for each noun, and a list of them."""
    from ottla.cli.main import NOUNS, make_parser

    found = {}
    rows = []
    for noun, text in NOUNS.items():
        parser = make_parser([noun]).innermost([noun])
        found[f"reference/commands/{noun}.md"] = _noun_page(noun, parser)
        verbs = ", ".join(code(word) for word in _below(parser))
        rows.append((f"[ottla {noun}](commands/{noun}.md)", text, verbs))
    found["reference/commands.md"] = "# Commands\n\n" + table(("noun", "what for", "verbs"), rows)
    return found


def _noun_page(noun: str, parser: argparse.ArgumentParser) -> Page:
    parts = [f"# ottla {noun}\n", _described(parser, with_examples=True)]
    for word, below in _below(parser).items():
        parts += [f"## ottla {noun} {word}\n", _described(below, with_examples=False)]
    return "\n".join(parts)


def _described(parser: argparse.ArgumentParser, *, with_examples: bool) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=100)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    parts = [_first(parser.description), "", "```text", formatter.format_help().rstrip(), "```", ""]
    rows = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
            continue
        name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        value = f" {action.metavar}" if action.option_strings and action.nargs != 0 and action.metavar else ""
        choices = f" One of {', '.join(map(str, action.choices))}." if action.choices else ""
        rows.append((code(name + value), f"{(action.help or '').replace('%%', '%')}{choices}"))
    if rows:
        parts.append(table(("word", "what it means"), rows))
    if with_examples and parser.epilog:
        parts += ["```text", parser.epilog.rstrip(), "```", ""]
    return "\n".join(parts)


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


# --- metrics ---------------------------------------------------------------------------------------------------------

FAMILY = re.compile(r"^# HELP (\S+) ?(.*)\n# TYPE \S+ (\w+)$", re.MULTILINE)
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? \S+", re.MULTILINE)


def metrics_page(text: str) -> Page:
    """What `/metrics` of a broker has, with the labels that were seen there."""
    labels: dict[str, set[str]] = {}
    for name, inside in SAMPLE.findall(text):
        labels.setdefault(name, set()).update(re.findall(r"(\w+)=", inside))
    rows = []
    for name, help_text, kind in FAMILY.findall(text):
        seen = set().union(*(found for each, found in labels.items() if each == name or each.startswith(f"{name}_")))
        rows.append((code(name), kind, ", ".join(sorted(seen)), help_text))
    return (
        "# Metrics of a broker\n\nRead from `/metrics` of a running broker when this page was made."
        f" What they are for: [metrics](../metrics.md).\n\n{table(('name', 'type', 'labels', 'what'), rows)}"
    )
