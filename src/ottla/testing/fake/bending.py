"""The calls that make rules; FakeBroker has them all."""

from __future__ import annotations

import threading

from ottla.testing.fake.rules import (
    Answering,
    Changing,
    ErrorLike,
    Kind,
    Moment,
    Nonsense,
    Rule,
    Script,
    checked_api,
    code_of,
)


class Bending:
    """One method for each way to bend an answer. All give the rule they made."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.script = Script()

    def fail(
        self,
        api: str,
        error: ErrorLike,
        *,
        times: int | None = 1,
        node: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        although_done: bool = False,
    ) -> Rule:
        """Answer with an error: for the whole request, or where this topic (and partition) occurs."""
        rule = Rule("fail", api, code_of(error), times, node, topic, partition, although_done)
        return self._add(rule)

    def delay(self, api: str, ms: float, *, times: int | None = 1, node: int | None = None) -> Rule:
        """Answer that much later."""
        return self._rule("delay", api, ms, times, node)

    def mute(self, api: str, *, times: int | None = 1, node: int | None = None, although_done: bool = False) -> Rule:
        """Never answer; the connection stays open and silent."""
        rule = Rule("mute", api, None, times, node, although_done=although_done)
        return self._add(rule)

    def hang_up(self, api: str, *, when: Moment = "before", times: int | None = 1, node: int | None = None) -> Rule:
        """Close the connection before the work, instead of the answer, in the middle of it or after it."""
        return self._rule("hang up", api, when, times, node)

    def garble(self, api: str, how: Nonsense, *, times: int | None = 1, node: int | None = None) -> Rule:
        """Send what no broker sends."""
        return self._rule("garble", api, how, times, node)

    def throttle(self, api: str, ms: int, *, times: int | None = 1, node: int | None = None) -> Rule:
        """Say that the client should be quiet for so long."""
        return self._rule("throttle", api, ms, times, node)

    def change(self, api: str, change: Changing, *, times: int | None = 1, node: int | None = None) -> Rule:
        """Let change(request, answer) make another answer of it. It runs on the fake's thread."""
        return self._rule("change", api, change, times, node)

    def answer(self, api: str, answer: Answering, *, times: int | None = None, node: int | None = None) -> Rule:
        """Let answer(request) be the answer, also for an API the fake does not know. None is no answer."""
        return self._rule("answer", api, answer, times, node)

    def clear(self) -> None:
        """No rules any more."""
        with self.lock:
            for rule in self.script.rules:
                rule.stop()

    def _rule(self, kind: Kind, api: str, value: object, times: int | None, node: int | None) -> Rule:
        return self._add(Rule(kind, api, value, times, node))

    def _add(self, rule: Rule) -> Rule:
        checked_api(rule.api)
        with self.lock:
            return self.script.add(rule)
