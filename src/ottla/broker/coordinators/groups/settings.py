"""How long groups wait for their members, how many they take, and how long they remember offsets.

The names, defaults and units are Kafka's. What Kafka keeps as a constant is a constant here, at the end.
"""

from __future__ import annotations

from typing import Final

from ottla.errors import InvalidSetting
from ottla.settings import LONG, Settings, setting

INT_MAX: Final = (1 << 31) - 1


class GroupSettings(Settings):
    group_min_session_timeout_ms = setting(
        "group.min.session.timeout.ms",
        int,
        default=6_000,
        unit="ms",
        doc="The shortest session a member of a classic group may ask for. Shorter ones find a dead member sooner "
        "and cost more heartbeats.",
    )
    group_max_session_timeout_ms = setting(
        "group.max.session.timeout.ms",
        int,
        default=1_800_000,
        unit="ms",
        doc="The longest session a member of a classic group may ask for. Longer ones leave more time between "
        "heartbeats and find a dead member later.",
    )
    group_initial_rebalance_delay_ms = setting(
        "group.initial.rebalance.delay.ms",
        int,
        default=3_000,
        at_least=0,
        unit="ms",
        doc="How long an empty group waits for more members before its first rebalance; again this long after every "
        "new member, up to the rebalance time-out.",
    )
    group_max_size = setting(
        "group.max.size",
        int,
        default=INT_MAX,
        at_least=1,
        doc="How many members a classic group takes.",
    )
    offset_metadata_max_bytes = setting(
        "offset.metadata.max.bytes",
        int,
        default=4_096,
        importance="high",
        unit="bytes",
        doc="How long the text may be that a client keeps with a committed offset.",
    )
    offsets_retention_minutes = setting(
        "offsets.retention.minutes",
        int,
        default=7 * 24 * 60,
        at_least=1,
        importance="high",
        unit="minutes",
        doc="How long a committed offset is kept after its group became empty; for groups without members and for "
        "topics that nobody in the group subscribes to any more, after the last commit.",
    )
    offsets_retention_check_interval_ms = setting(
        "offsets.retention.check.interval.ms",
        LONG,
        default=600_000,
        at_least=1,
        importance="high",
        unit="ms",
        doc="How often offsets and groups that are too old are looked for.",
    )

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    def validate(self) -> None:
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise InvalidSetting(
                f"group.min.session.timeout.ms={self.group_min_session_timeout_ms} is above "
                f"group.max.session.timeout.ms={self.group_max_session_timeout_ms}; no session would be allowed"
            )


# A member that has no id yet cannot send heartbeats; if its client goes away during the rebalance, this removes it.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000

# Ids handed out with MEMBER_ID_REQUIRED to clients that have not come back yet, per group. Each of them ends by the
# session time-out it asked for, but a client in a loop could ask faster. Full: GROUP_MAX_SIZE_REACHED.
PENDING_MEMBERS_LIMIT: Final = 10_000

# Tombstones written in one batch while cleaning up; the rest follows in the next slice.
TOMBSTONES_PER_WRITE: Final = 500
