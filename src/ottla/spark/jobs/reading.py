"""Which records a job reads, as options of format("ottla").

1. A job that copies reads only what was committed, and keeps headers; records that are gone before it read them are an
   error, unless the plan allows the loss.
2. Client settings stay what the user gave: bootstrap.servers, security.protocol and so on, with "kafka." before them.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.spark.tokens.handout import without_own_login


class TopicsMissing(OttlaError):
    """A job needs topics to work on. Name them, or give a pattern, not both."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Topics of one cluster."""

    settings: Mapping[str, object] = field(repr=False)
    """Of the client: at least bootstrap.servers. Not shown, because there may be a password."""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    isolation_level: str = "read_committed"
    allow_data_loss: bool = False
    since_ms: int | None = None
    until_ms: int | None = None
    batch_records: int | None = None
    """A batch of a stream has at most so many offsets."""

    def __post_init__(self) -> None:
        if bool(self.topics) == (self.pattern is not None):
            raise TopicsMissing("there is neither a topic nor a pattern" if not self.topics else "there are both")

    @property
    def chosen(self) -> dict[str, str]:
        """What is read, in one spelling: the order of names does not matter."""
        if self.pattern is not None:
            return {"subscribePattern": self.pattern}
        return {"subscribe": ",".join(sorted(set(self.topics)))}

    def options(self) -> dict[str, str]:
        """For readStream, and for read."""
        made = client_options(self.settings) | self.chosen
        made |= {"includeHeaders": "true", "isolationLevel": self.isolation_level}
        made["failOnDataLoss"] = "false" if self.allow_data_loss else "true"
        if self.since_ms is None:
            made["startingOffsets"] = "earliest"
        else:
            made["startingTimestamp"] = str(self.since_ms)
            made["startingOffsetsByTimestampStrategy"] = "latest"
        if self.until_ms is not None:
            made["endingTimestamp"] = str(self.until_ms)
        if self.batch_records is not None:
            made["maxOffsetsPerTrigger"] = str(self.batch_records)
        return made


def client_options(settings: Mapping[str, object]) -> dict[str, str]:
    """Client settings as options of format("ottla"); where tasks have a token, the login stays on the driver."""
    return {f"kafka.{name}": str(value) for name, value in without_own_login(settings).items()}
