"""Every target of a campaign by its name, with its share of the inputs.

Shares follow what an input costs: a decoder takes microseconds, a frame for a whole broker a millisecond, a session of
a client tens of them. Modules of a target are loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.targets import Target, message_targets, other_targets

MESSAGES = "all messages"
AFTER_LOGIN = "frames after login"
HOSTILE = "client against a hostile broker"
SHARES = {MESSAGES: 300, AFTER_LOGIN: 40, HOSTILE: 2, "SCRAM answer": 2}
USUAL_SHARE = 25


def any_message() -> Target:
    """All decoders of messages as one: the first two bytes choose which."""
    table = list(message_targets())

    def decode(data: bytes) -> Any:
        target = table[int.from_bytes(data[:2], "big") % len(table)]
        try:
            return target.decode(data[2:])
        except target.declared:
            return None

    def seeds() -> list[bytes]:
        return [number.to_bytes(2, "big") + seed for number, each in enumerate(table) for seed in each.seeds()[:2]]

    return Target(MESSAGES, decode, (), seeds)


def _leaves() -> list[Target]:
    from tests.fuzz.frame_targets import frame_targets
    from tests.fuzz.leaf_targets import leaf_targets

    return [*leaf_targets(), *frame_targets()]


def _more() -> list[Target]:
    from tests.fuzz.more_targets import more_targets

    return more_targets()


def _after_login() -> list[Target]:
    from tests.fuzz.after_login import after_login_target

    return [after_login_target()]


def _hostile() -> list[Target]:
    from tests.fuzz.hostile_answers import hostile_answers_target

    return [hostile_answers_target()]


GROUPS: list[Callable[[], list[Target]]] = [
    lambda: [any_message()],
    other_targets,
    _leaves,
    _more,
    _after_login,
    _hostile,
]


def all_targets() -> Iterator[Target]:
    for group in GROUPS:
        yield from group()


def find_target(name: str) -> Target:
    for target in (*other_targets(), *message_targets()):
        if target.name == name:
            return target
    for target in all_targets():
        if target.name == name:
            return target
    raise SystemExit(f"no target is named {name!r}")


def shared_out(inputs: int, names: list[str]) -> dict[str, int]:
    """How many inputs each target gets; at least that many together."""
    shares = {name: SHARES.get(name, USUAL_SHARE) for name in names}
    whole = sum(shares.values())
    return {name: -(-inputs * share // whole) for name, share in shares.items()}
