"""Rules: which requests are bent, how, and how often.

1. A rule without a topic is used up by requests: it counts once for a request and holds for all of it.
2. A rule with a topic (and partition) is used up where that partition occurs in a request; its neighbours are well.
3. The first rule that fits is the one that is used, kind by kind; rules of different kinds add up.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from ottla.errors import ERRORS_BY_NAME, BrokerError
from ottla.light_dataclasses import dataclass, field
from ottla.protocol.api import APIS_BY_NAME
from ottla.protocol.schema import Message

Moment: TypeAlias = Literal["before", "instead", "in the middle", "after"]
Nonsense: TypeAlias = Literal["twice", "garbage", "oversized", "wrong correlation id", "cut short", "huge count"]
Kind: TypeAlias = Literal["fail", "delay", "mute", "hang up", "garble", "throttle", "change", "answer"]
ErrorLike: TypeAlias = str | int | type[BrokerError] | BrokerError


def code_of(error: ErrorLike) -> int:
    """The number of an error that is given as Kafka's name, our class, an instance or the number itself."""
    if isinstance(error, str):
        if error not in ERRORS_BY_NAME:
            raise ValueError(f"{error!r} is not the name of one of Kafka's errors, such as NOT_LEADER_OR_FOLLOWER")
        found = ERRORS_BY_NAME[error]
        return 0 if found is None else found.code
    return error if isinstance(error, int) else error.code


def checked_api(name: str) -> str:
    """The name of an API. A wrong one would bend nothing, and the test that asked for it would pass for no reason."""
    if name not in APIS_BY_NAME:
        near = get_close_matches(str(name), APIS_BY_NAME, 1)
        hint = f"did you mean {near[0]!r}?" if near else "such as 'Produce' or 'Metadata'"
        raise ValueError(f"{name!r} is not the name of one of Kafka's APIs; {hint}")
    return name


@dataclass(slots=True)
class Rule:
    """One way to bend answers. `used` says how often it was."""

    kind: Kind
    api: str
    value: Any
    times: int | None
    node: int | None = None
    topic: str | None = None
    partition: int | None = None
    although_done: bool = False
    used: int = 0

    @property
    def is_over(self) -> bool:
        return self.times is not None and self.used >= self.times

    def stop(self) -> None:
        """Bend nothing any more."""
        self.times = self.used

    def fits(self, api: str, node: int) -> bool:
        return not self.is_over and self.api == api and self.node in (None, node)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error to answer with. When `although_done`, the work is done before."""

    code: int
    although_done: bool


@dataclass(slots=True)
class Asked:
    """One request as it came, and how its answer is bent."""

    node: int
    api: str
    version: int
    client_id: str | None
    message: Any
    bends: dict[str, Rule] = field(default_factory=dict, repr=False)
    narrow: list[Rule] = field(default_factory=list, repr=False)
    failed: bool = False  # an error was put into the answer: there is nothing to wait for

    def failure(self, topic: str | None = None, partition: int | None = None) -> Failure | None:
        """The error for this part of the request; using it up is asking for it."""
        rule = next((rule for rule in self.narrow if _hits(rule, topic, partition)), None)
        if rule is not None:
            rule.used += 1
        else:
            rule = self.bends.get("fail")
        if rule is None:
            return None
        self.failed = True
        return Failure(rule.value, rule.although_done)

    def code(self) -> int:
        """The error of a request without parts."""
        failure = self.failure()
        return 0 if failure is None else failure.code


def _hits(rule: Rule, topic: str | None, partition: int | None) -> bool:
    return not rule.is_over and rule.topic == topic and rule.partition in (None, partition)


class Script:
    """All rules, in the order they were made."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def add(self, rule: Rule) -> Rule:
        self.rules = [each for each in self.rules if not each.is_over]
        self.rules.append(rule)
        return rule

    def begin(self, node: int, api: str, version: int, client_id: str | None, message: Message) -> Asked:
        """A request comes: take the rules that hold for all of it, remember those for parts of it."""
        asked = Asked(node, api, version, client_id, message)
        for rule in self.rules:
            if not rule.fits(api, node):
                continue
            if rule.topic is not None:
                asked.narrow.append(rule)
            elif rule.kind not in asked.bends:
                rule.used += 1
                asked.bends[rule.kind] = rule
        return asked

    def knows(self, api: str) -> bool:
        return any(rule.api == api and rule.kind == "answer" and not rule.is_over for rule in self.rules)


Changing: TypeAlias = Callable[[Any, Any], Message | None]
Answering: TypeAlias = Callable[[Any], Message | None]
