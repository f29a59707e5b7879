"""What happens when somebody sets what has no effect here (the marks are in the declarations, see no_effect.py).

1. What would only seem to protect is refused: BrokerSettings.validate does it, so at every start and for every change.
2. Everything else is named in one line at the start, with the reasons, unless it is set to its default.
3. Super users without an authorizer name brokers and nothing else, which is said, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.settings import BrokerSettings
from ottla.settings import NoEffect


def warnings(settings: BrokerSettings) -> list[str]:
    """What was set and has no effect, by reason, in at most one line; and what means less than it seems to."""
    written = {key: settings.written_value(key) for key in settings.configured_names()}
    reasons = names_without_effect(written.items())
    lines = []
    if reasons:
        useless = "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())
        lines.append(f"set, but without effect: {useless}")
    if settings.super_users and not settings.authorizer_class_name:
        lines.append("super.users only names brokers: without authorizer.class.name everybody may do everything")
    return lines


def names_without_effect(values: Iterable[tuple[str, object]]) -> dict[str, list[str]]:
    """The names that differ from their defaults and have no effect, by reason."""
    reasons: dict[str, list[str]] = {}
    for key, value in sorted(values, key=lambda pair: pair[0]):
        declared = BrokerSettings.setting_of(key)
        if declared is not None and declared.no_effect is not None and not declared.is_default(value):
            reasons.setdefault(declared.no_effect.sentence, []).append(key)
    return reasons


def without_effect_table() -> str:
    """Every broker setting without effect, by reason: the table in docs/settings.md."""
    names: dict[NoEffect, list[str]] = {}
    for each in BrokerSettings.declared():
        if each.no_effect is not None:
            names.setdefault(each.no_effect, []).append(each.name)
    order = {"protection": 0, "feature": 1, "tuning": 2}
    rows = [
        f"| {mark.kind} | {mark.sentence} | {', '.join(f'`{name}`' for name in sorted(listed))} |"
        for mark, listed in sorted(names.items(), key=lambda item: (order[item[0].kind], item[0].why, item[1]))
    ]
    return "\n".join(["| kind | why it has no effect, and what to do | settings |", "|---|---|---|", *rows]) + "\n"
