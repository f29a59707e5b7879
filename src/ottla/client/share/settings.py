"""What a share consumer can be told: a consumer's settings less those that the group decides, and a few of its own.

Names and defaults are Java's (4.3); share.dead.letter.* and share.renew.max.ms are ours. What has no meaning in a share
group is refused, as Java does: who sets it expects something that would not happen.
"""

from __future__ import annotations

from typing import Final

from ottla.client.consumer.settings import ConsumerSettings
from ottla.errors import InvalidGroupId, InvalidSetting
from ottla.settings import LONG, setting

DAY_MS: Final = 86_400_000

_BY_THE_GROUP: Final = "the brokers decide it for share groups"
REFUSED: Final = {
    "auto.offset.reset": "set share.auto.offset.reset on the group",
    "isolation.level": "set share.isolation.level on the group",
    "enable.auto.commit": "records are acknowledged; see share.acknowledgement.mode",
    "auto.commit.interval.ms": "records are acknowledged; see share.acknowledgement.mode",
    "group.instance.id": "members of share groups are never static",
    "group.protocol": "share groups have a protocol of their own",
    "group.remote.assignor": _BY_THE_GROUP,
    "partition.assignment.strategy": _BY_THE_GROUP,
    "session.timeout.ms": _BY_THE_GROUP,
    "heartbeat.interval.ms": _BY_THE_GROUP,
    "max.partition.fetch.bytes": "brokers bound share fetches as a whole; see fetch.max.bytes and max.poll.records",
    "queued.max.bytes": "nothing is fetched ahead, because what is fetched is locked",
    "exclude.internal.topics": "topics are named, there are no patterns",
    "interceptor.classes": "there are none for share consumers",
}


class ShareConsumerSettings(ConsumerSettings):
    share_acknowledgement_mode = setting(
        "share.acknowledgement.mode",
        str,
        default="implicit",
        one_of=("implicit", "explicit"),
        doc="implicit: the next poll accepts what was not acknowledged. explicit: every record must be acknowledged.",
    )
    share_acquire_mode = setting(
        "share.acquire.mode",
        str,
        default="batch_optimized",
        one_of=("batch_optimized", "record_limit"),
        doc="Whether a fetch locks whole batches, or exactly as many records as were asked for (Kafka 4.2 and later).",
    )
    share_dead_letter_topic = setting(
        "share.dead.letter.topic",
        str,
        default=None,
        check=lambda name: None if name.strip() else "it must not be empty; leave it out for no dead letters",
        doc="Where records go that nobody could work on, with their headers and why. None: they are only released.",
    )
    share_dead_letter_deliveries = setting(
        "share.dead.letter.deliveries",
        int,
        default=4,
        at_least=1,
        doc="After how many deliveries; below the group's share.delivery.count.limit (5), or brokers drop them first.",
    )
    share_renew_max_ms = setting(
        "share.renew.max.ms",
        LONG,
        default=DAY_MS,
        at_least=0,
        unit="ms",
        doc="How long the lock of a record is renewed while it is worked on, by workers or in `with record`.",
    )

    def validate(self) -> None:
        for name, instead in REFUSED.items():
            if self._is_set(name):
                raise InvalidSetting(f"{name} has no meaning for a share consumer: {instead}")
        if self.group_id is None:
            raise InvalidGroupId("a share consumer needs a group.id")
        super().validate()

    @property
    def is_explicit(self) -> bool:
        return self.share_acknowledgement_mode == "explicit"
