"""Subscriptions by regular expression: which topics they mean now.

Kafka matches them beside the heartbeats, and so do we: a heartbeat that needs it sets a RegexTimer for right now, whose
slice matches all expressions of the group with all topics and writes what they mean. So a member that comes with a new
expression gets its topics with its next heartbeat.

However many topics there are and whatever the expression is, nobody else waits for it: a slice ends when the automaton
has made a piece of its work (PIECE_STEPS) or NAMES_PER_SLICE names are through, and the timer is set once more.
An expression may use EXPRESSION_STEPS; one that takes more matches nothing, as one that cannot be read.

Matched again: when an expression is new, when topics were made, and every group.consumer.regex.refresh.interval.ms; but
at most every BATCH_INTERVAL_MS per group, because it costs the number of all topics.

Only topics that the member may describe whose heartbeat asked for it are matched, as in Kafka: a group must not learn
the names of others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator
from enum import Enum
from typing import Final, TypeAlias

from ottla.broker.coordinators.effects import ClusterView, Effect, Reply, SetTimer, Write
from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.broker.coordinators.groups.consumer.member import ConsumerMember
from ottla.broker.coordinators.groups.consumer.records import epoch_record, regex_record, regex_tombstone
from ottla.broker.coordinators.groups.consumer.subscriptions import metadata_hash
from ottla.broker.coordinators.groups.consumer.timers import RegexTimer
from ottla.broker.coordinators.groups.modern_group import Draft
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.groups import GroupCoordinatorSettings
from ottla.budget import Budget, BudgetExceeded
from ottla.errors import BrokerError, InvalidRegularExpression
from ottla.patterns.patterns import compile_pattern

log = logging.getLogger(__name__)

BATCH_INTERVAL_MS: Final = 10_000
NAMES_PER_SLICE: Final = 500
EXPRESSION_STEPS: Final = 2_000_000

Visible: TypeAlias = Callable[[frozenset[str]], Collection[str]]
"""Those of the topics that the asking member may describe."""


class RegexChange(Enum):
    NONE = 0
    NOT_RESOLVED = 1  # nobody knows yet what the new expression means
    RESOLVED = 2


def check_regex(regex: str) -> None:
    try:
        compile_pattern(regex)
    except InvalidRegularExpression as error:
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error.detail}."
        ) from error


def update_regex(draft: Draft[ConsumerGroup], before: ConsumerMember, after: ConsumerMember) -> RegexChange:
    """The member may have another expression now (it is written already): the old one may go, the new one must be
    one."""
    if before.regex == after.regex:
        return RegexChange.NONE
    group = draft.group
    if before.regex and not group.regex_members[before.regex] and before.regex in group.regexes:
        draft.write(regex_tombstone(group.group_id, before.regex))
    if not after.regex:
        return RegexChange.RESOLVED
    if group.regex_members[after.regex] == 1:
        check_regex(after.regex)
    return RegexChange.RESOLVED if after.regex in group.regexes else RegexChange.NOT_RESOLVED


def refresh_if_due(
    group: ConsumerGroup, settings: GroupCoordinatorSettings, now_ms: int, asked_by: RequestContext | None = None
) -> list[Effect]:
    """Have the expressions matched, if one of them is new or what they mean may have changed."""
    if not group.regex_members:
        return []
    last_ms = max((each.timestamp_ms for each in group.regexes.values()), default=None)
    if last_ms is not None and now_ms <= last_ms + BATCH_INTERVAL_MS:
        return []
    is_old = last_ms is None or now_ms > last_ms + settings.group_consumer_regex_refresh_interval_ms
    if is_old or group.has_new_topics or group.regexes.keys() != group.regex_members.keys():
        return [SetTimer(RegexTimer(group.group_id, asked_by), now_ms)]
    return []


def resolve(
    group: ConsumerGroup, cluster: ClusterView, timer: RegexTimer, now_ms: int, visible: Visible = lambda names: names
) -> list[Effect]:
    """A slice of matching every expression with every visible topic, and of the last one what was found."""
    if not group.regex_members:
        group.matching = None
        return []
    if group.matching is None:
        group.matching = _match_all(sorted(group.regex_members), tuple(cluster.topics()), visible)
    try:
        next(group.matching)
    except StopIteration as end:
        group.matching = None
        return _resolved(group, cluster, now_ms, end.value)
    return [SetTimer(timer, now_ms)]


def _resolved(
    group: ConsumerGroup, cluster: ClusterView, now_ms: int, found: dict[str, frozenset[str]]
) -> list[Effect]:
    """The group epoch is bumped when what was found changes what the group reads."""
    draft = Draft(group)
    is_changed = False
    for regex, topics in found.items():
        if regex not in group.regex_members:
            continue  # its last member has left meanwhile
        known = group.regexes.get(regex)
        is_changed = is_changed or topics != (frozenset() if known is None else known.topics)
        draft.write(regex_record(group.group_id, regex, topics, version=0, now_ms=now_ms))
    found_hash = metadata_hash(cluster, draft.group.subscribed_topics())
    if is_changed or found_hash != group.metadata_hash:
        draft.write(epoch_record(group.group_id, group.next_epoch, found_hash))
        group.checked_epoch = group.next_epoch
    group.has_new_topics = False

    def failure(error: BrokerError) -> tuple[Reply, ...]:
        log.warning("group %s: what its regular expressions mean could not be written: %s", group.group_id, error)
        group.has_new_topics = True  # so that it is tried again
        return ()

    return [Write(tuple(draft.records), (), failure)]


def _match_all(
    regexes: list[str], names: tuple[str, ...], visible: Visible
) -> Generator[None, None, dict[str, frozenset[str]]]:
    found = {}
    for regex in regexes:
        matching = yield from _matching(regex, names)
        seen: set[str] = set()
        for start in range(0, len(matching), NAMES_PER_SLICE):
            seen.update(visible(frozenset(matching[start : start + NAMES_PER_SLICE])))
            if start + NAMES_PER_SLICE < len(matching):
                yield
        found[regex] = frozenset(seen)
    return found


def _matching(regex: str, names: tuple[str, ...]) -> Generator[None, None, list[str]]:
    matching = []
    budget = Budget(EXPRESSION_STEPS, "matching the expression")
    try:
        automaton = compile_pattern(regex)
        for number, name in enumerate(names, 1):
            if (yield from automaton.match_in_pieces(name, budget)):
                matching.append(name)
            if number % NAMES_PER_SLICE == 0:
                yield
    except (InvalidRegularExpression, BudgetExceeded) as error:
        log.error("regular expression %r cannot be used and matches nothing: %s", regex, error)
        return []
    return matching
