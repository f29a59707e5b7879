"""What one group may set for itself (a resource of type GROUP), and how far the broker lets it go.

    group_in_effect({"consumer.session.timeout.ms": "50000"}, broker).consumer_session_timeout_ms     # 50000

1. What a group does not set it has from the broker, under the same name with "group." before it.
2. A value outside the broker's limits is refused when it is set. When the limits move later, the group keeps what it
   set and gets the nearest value that is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.broker.settings.groups import GroupCoordinatorSettings
from ottla.broker.settings.sharing import SharingSettings
from ottla.errors import InvalidSetting
from ottla.light_tuples import NamedTuple
from ottla.settings import Settings, setting

# An ISO 8601 duration as Java's Duration reads it: days, hours, minutes and seconds, not negative.
_DURATION: Final = re.compile(
    r"by_duration:\+?P(?=.)(\+?\d{1,12}D)?(T(?=.)(\+?\d{1,12}H)?(\+?\d{1,12}M)?(\+?\d{1,12}([.,]\d{0,9})?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def _reset_problem(value: str) -> str | None:
    if value in ("earliest", "latest") or (value.startswith("by_duration:") and _DURATION.fullmatch(value)):
        return None
    return "it must be earliest, latest or by_duration:<a duration such as PT1H or P2DT12H>"


class GroupLevelSettings(Settings):
    consumer_session_timeout_ms = setting(
        "consumer.session.timeout.ms",
        int,
        default=45_000,
        at_least=1,
        unit="ms",
        doc="How long a member of this consumer group may be silent before it is put out.",
    )
    consumer_heartbeat_interval_ms = setting(
        "consumer.heartbeat.interval.ms",
        int,
        default=5000,
        at_least=1,
        unit="ms",
        doc="How often members of this consumer group show that they live.",
    )
    consumer_assignment_interval_ms = setting(
        "consumer.assignment.interval.ms",
        int,
        default=1000,
        at_least=0,
        unit="ms",
        doc="How long after an assignment of this consumer group the next one is made at the earliest.",
    )

    # --- share groups ---

    share_session_timeout_ms = setting(
        "share.session.timeout.ms",
        int,
        default=45_000,
        at_least=1,
        unit="ms",
        doc="How long a member of this share group may be silent before it is put out.",
    )
    share_heartbeat_interval_ms = setting(
        "share.heartbeat.interval.ms",
        int,
        default=5000,
        at_least=1,
        unit="ms",
        doc="How often members of this share group show that they live.",
    )
    share_record_lock_duration_ms = setting(
        "share.record.lock.duration.ms",
        int,
        default=30_000,
        at_least=1000,
        unit="ms",
        doc="How long a record is locked for the reader of this share group that got it.",
    )
    share_delivery_count_limit = setting(
        "share.delivery.count.limit",
        int,
        default=5,
        at_least=2,
        doc="How often this share group hands out a record before it counts as bad.",
    )
    share_partition_max_record_locks = setting(
        "share.partition.max.record.locks",
        int,
        default=2000,
        at_least=100,
        doc="How many records of a partition this share group may have locked at a time.",
    )
    share_auto_offset_reset = setting(
        "share.auto.offset.reset",
        str,
        default="latest",
        check=_reset_problem,
        doc="Where this share group begins to read: earliest, latest or by_duration:<duration>.",
    )
    share_isolation_level = setting(
        "share.isolation.level",
        str,
        default="read_uncommitted",
        one_of=("read_committed", "read_uncommitted"),
        doc="Whether this share group sees records of transactions that are not committed.",
    )
    share_renew_acknowledge_enable = setting(
        "share.renew.acknowledge.enable",
        bool,
        default=True,
        doc="Whether a reader of this share group may lengthen its lock on a record.",
    )
    share_assignment_interval_ms = setting(
        "share.assignment.interval.ms",
        int,
        default=1000,
        at_least=0,
        unit="ms",
        doc="How long after an assignment of this share group the next one is made at the earliest.",
    )

    # --- streams groups ---

    streams_session_timeout_ms = setting(
        "streams.session.timeout.ms",
        int,
        default=45_000,
        at_least=1,
        unit="ms",
        doc="How long a member of this streams group may be silent before it is put out.",
    )
    streams_heartbeat_interval_ms = setting(
        "streams.heartbeat.interval.ms",
        int,
        default=5000,
        at_least=1,
        unit="ms",
        doc="How often members of this streams group show that they live.",
    )
    streams_num_standby_replicas = setting(
        "streams.num.standby.replicas",
        int,
        default=0,
        at_least=0,
        doc="How many stand-by copies each task of this streams group has.",
    )
    streams_initial_rebalance_delay_ms = setting(
        "streams.initial.rebalance.delay.ms",
        int,
        default=3000,
        at_least=0,
        unit="ms",
        doc="How long this streams group waits for more members when it was empty.",
    )
    streams_assignment_interval_ms = setting(
        "streams.assignment.interval.ms",
        int,
        default=1000,
        at_least=0,
        unit="ms",
        doc="How long after an assignment of this streams group the next one is made at the earliest.",
    )


class Limits(NamedTuple):
    """The broker's settings that bound one of a group's."""

    least: str | None
    most: str


def _between(kind: str, what: str) -> tuple[str, Limits]:
    return f"{kind}.{what}", Limits(f"group.{kind}.min.{what}", f"group.{kind}.max.{what}")


LIMITS: Final[Mapping[str, Limits]] = dict(
    [
        *(
            _between(kind, what)
            for kind in ("consumer", "share", "streams")
            for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
        ),
        *(
            _between("share", what)
            for what in ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks")
        ),
        ("streams.num.standby.replicas", Limits(None, "group.streams.max.standby.replicas")),
    ]
)


def check_group_level(own: Mapping[str, str], broker: Settings) -> None:
    """InvalidConfig when a group cannot have these values beside what it has from the broker."""
    group, held = _values(_inheriting(own, broker)), _values(broker)
    for name in own.keys() & LIMITS.keys():
        value, limits = group[name], LIMITS[name]
        if limits.least is not None and value < held[limits.least]:
            raise InvalidSetting(f"{name}={value} must be at least {limits.least}, which is {held[limits.least]}")
        if value > held[limits.most]:
            raise InvalidSetting(f"{name}={value} must be at most {limits.most}, which is {held[limits.most]}")
    for kind in ("consumer", "share", "streams"):
        session, beat = group[f"{kind}.session.timeout.ms"], group[f"{kind}.heartbeat.interval.ms"]
        if session <= beat:
            raise InvalidSetting(f"{kind}.session.timeout.ms={session} must exceed {kind}.heartbeat.interval.ms={beat}")


def group_in_effect(own: Mapping[str, str], broker: Settings) -> GroupLevelSettings:
    """What a group has that set `own`, inside the limits that the broker has now."""
    group = _inheriting(own, broker)
    values, held = _values(group), _values(broker)
    moved = {}
    for name in own.keys() & LIMITS.keys():
        limits = LIMITS[name]
        floor = 0 if limits.least is None else held[limits.least]
        moved[name] = min(max(values[name], floor), held[limits.most])
    return group.replaced(moved)


class ConsumerTimes(NamedTuple):
    """What the coordinator needs of a consumer group's settings."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def consumer_times(own: Mapping[str, str], broker: GroupCoordinatorSettings) -> ConsumerTimes:
    """`own` is what the group set; hardly any group sets anything."""
    if not own:
        return ConsumerTimes(
            broker.group_consumer_session_timeout_ms,
            broker.group_consumer_heartbeat_interval_ms,
            broker.group_consumer_assignment_interval_ms,
        )
    group = group_in_effect(own, broker)
    return ConsumerTimes(
        group.consumer_session_timeout_ms, group.consumer_heartbeat_interval_ms, group.consumer_assignment_interval_ms
    )


class StreamsGroupConfig(NamedTuple):
    """What the coordinator needs of a streams group's settings."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    standby_replicas: int = 0
    max_size: int = (1 << 31) - 1


def streams_config(own: Mapping[str, str], broker: SharingSettings) -> StreamsGroupConfig:
    if not own:
        return StreamsGroupConfig(
            broker.group_streams_session_timeout_ms,
            broker.group_streams_heartbeat_interval_ms,
            broker.group_streams_assignment_interval_ms,
            broker.group_streams_initial_rebalance_delay_ms,
            broker.group_streams_num_standby_replicas,
            broker.group_streams_max_size,
        )
    group = group_in_effect(own, broker)
    return StreamsGroupConfig(
        group.streams_session_timeout_ms,
        group.streams_heartbeat_interval_ms,
        group.streams_assignment_interval_ms,
        group.streams_initial_rebalance_delay_ms,
        group.streams_num_standby_replicas,
        broker.group_streams_max_size,
    )


class ShareGroupSettings(NamedTuple):
    """What share groups need of a group's settings: its coordinator the times, the leaders of partitions the rest."""

    assignor: str
    max_size: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    lock_ms: int
    delivery_count: int
    max_locks: int
    offset_reset: str
    is_read_committed: bool
    may_renew: bool


def share_group_settings(own: Mapping[str, str], broker: SharingSettings) -> ShareGroupSettings:
    """`own` is what the group set."""
    group = group_in_effect(own, broker) if own else GroupLevelSettings()
    return ShareGroupSettings(
        broker.group_share_assignors[0],
        broker.group_share_max_size,
        group.share_session_timeout_ms if own else broker.group_share_session_timeout_ms,
        group.share_heartbeat_interval_ms if own else broker.group_share_heartbeat_interval_ms,
        group.share_assignment_interval_ms if own else broker.group_share_assignment_interval_ms,
        group.share_record_lock_duration_ms if own else broker.group_share_record_lock_duration_ms,
        group.share_delivery_count_limit if own else broker.group_share_delivery_count_limit,
        group.share_partition_max_record_locks if own else broker.group_share_partition_max_record_locks,
        group.share_auto_offset_reset,
        group.share_isolation_level == "read_committed",
        group.share_renew_acknowledge_enable,
    )


_PARTS: Final = re.compile(r"(\d+(?:[.,]\d*)?)([DHMS])", re.IGNORECASE)
_PART_MS: Final = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1_000}


def reset_duration_ms(offset_reset: str) -> int | None:
    """How far back `by_duration:...` reaches; None for earliest and latest."""
    if not offset_reset.lower().startswith("by_duration:"):
        return None
    parts = _PARTS.findall(offset_reset.partition(":")[2])
    return int(sum(float(number.replace(",", ".")) * _PART_MS[unit.upper()] for number, unit in parts))


def _values(settings: Settings) -> Mapping[str, int]:
    """The numbers among the settings; all limits are numbers."""
    return {name: value for name, value in settings.as_dict().items() if isinstance(value, int)}


def _inheriting(own: Mapping[str, str], broker: Settings) -> GroupLevelSettings:
    held = broker.as_dict()
    names = [each.name for each in GroupLevelSettings.declared()]
    inherited = {name: held[f"group.{name}"] for name in names if f"group.{name}" in held}
    return GroupLevelSettings({**inherited, **own})
