"""Settings of a topic that is to be made, looked at before the cluster is asked, as Apache's kafka-topics does."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.storage.settings import TopicSettings


def check_configs(configs: Mapping[str, str]) -> None:
    """ValueError in Kafka's words for a name that nobody knows, or a value that is no number where one must be."""
    known = {each.name: each for each in TopicSettings.declared()}
    for name, text in configs.items():
        if name not in known:
            raise ValueError(f"Unknown topic config name: {name}")
        kind = known[name].kind.name
        if kind in ("INT", "LONG", "SHORT", "DOUBLE") and not _is_number(text, whole=kind != "DOUBLE"):
            raise ValueError(f"Invalid value {text} for configuration {name}: Not a number of type {kind}")
        if kind == "BOOLEAN" and text.lower() not in ("true", "false"):
            raise ValueError(
                f"Invalid value {text} for configuration {name}: Expected value to be either true or false"
            )


def _is_number(text: str, *, whole: bool) -> bool:
    try:
        int(text) if whole else float(text)
    except ValueError:
        return False
    return True
