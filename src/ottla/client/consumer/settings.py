"""What a consumer can be told. Names and defaults are Java's (4.x); librdkafka's and kafka-python's words are aliases.

A few are ours, and say so: how much may be fetched ahead (queued.max.bytes), and kafka-python's consumer.timeout.ms.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.client.consumer.offset_reset import ResetPolicy, parse_reset, reset_problem
from ottla.client.serializers import DESERIALIZERS, as_deserializer
from ottla.client.settings import ClientSettings
from ottla.errors import InvalidSetting
from ottla.settings import Alias, Kind, setting

INT_MAX: Final = 2**31 - 1
ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")

# What Java programs and their files say for the same.
_JAVA_ASSIGNORS: Final = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}


def _parse_parts(value: object) -> tuple[Any, ...]:
    """Texts with commas, or Python objects, one or several."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _parse_objects(value: object) -> tuple[Any, ...]:
    parts = _parse_parts(value)
    if any(isinstance(each, str) for each in parts):  # a text names no code to be loaded
        raise ValueError
    return parts


def _parse_deserializer(value: object) -> object:
    try:
        as_deserializer(value)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return value


DESERIALIZER: Final = Kind("CLASS", f"a function, an object or one of {', '.join(DESERIALIZERS)}", _parse_deserializer)
OBJECTS: Final = Kind("LIST", "a list of objects", _parse_objects)
ASSIGNOR_LIST: Final = Kind(
    "LIST",
    "a list of assignors, by name or as objects",
    lambda value: tuple(
        _JAVA_ASSIGNORS.get(each, each) if isinstance(each, str) else each for each in _parse_parts(value)
    ),
)


def _assignors_problem(assignors: tuple[Any, ...]) -> str | None:
    for each in assignors:
        if isinstance(each, str) and each not in ASSIGNORS:
            return f"{each!r} is none of {', '.join(ASSIGNORS)}; an assignor of your own is given as an object"
        if not isinstance(each, str) and not isinstance(getattr(each, "name", None), str):
            return "an assignor of your own needs a `name`"
    return None if assignors else "at least one assignor is needed"


class ConsumerSettings(ClientSettings):
    # --- the group ---

    group_id = setting(
        "group.id",
        str,
        default=None,
        importance="high",
        check=lambda name: None if name.strip() else "it must not be empty; leave it out to read without a group",
        doc="The group whose members share the partitions; its offsets are committed. Without it only assign() works.",
    )
    group_instance_id = setting(
        "group.instance.id",
        str,
        default=None,
        check=lambda name: None if name.strip() else "it must not be empty; leave it out for a dynamic member",
        doc="A name that stays: a static member keeps its partitions over a restart shorter than session.timeout.ms.",
    )
    group_protocol = setting(
        "group.protocol",
        str,
        default="classic",
        one_of=("classic", "consumer"),
        importance="high",
        doc="classic: the members assign among themselves. consumer: the broker assigns (KIP-848).",
    )
    group_remote_assignor = setting(
        "group.remote.assignor",
        str,
        default=None,
        doc="Which assignor the broker uses, with group.protocol=consumer; None leaves it to the broker.",
    )
    session_timeout_ms = setting(
        "session.timeout.ms",
        int,
        default=45_000,
        at_least=1,
        unit="ms",
        importance="high",
        doc="After so long without a heartbeat the group takes the member's partitions away; classic protocol only.",
    )
    heartbeat_interval_ms = setting(
        "heartbeat.interval.ms",
        int,
        default=3_000,
        at_least=1,
        unit="ms",
        importance="high",
        doc="How often the member says that it lives, from the background; below a third of session.timeout.ms.",
    )
    max_poll_interval_ms = setting(
        "max.poll.interval.ms",
        int,
        default=300_000,
        at_least=1,
        unit="ms",
        doc="How long the work between two polls may take before the member leaves the group by itself.",
    )
    partition_assignment_strategy = setting(
        "partition.assignment.strategy",
        ASSIGNOR_LIST,
        default=("range", "cooperative-sticky"),
        check=_assignors_problem,
        doc="How the members share partitions, most wanted first; classic protocol only.",
    )

    # --- offsets ---

    enable_auto_commit = setting(
        "enable.auto.commit", bool, default=True, doc="Whether polls commit the offsets of earlier polls by themselves."
    )
    auto_commit_interval_ms = setting(
        "auto.commit.interval.ms", int, default=5_000, at_least=0, unit="ms", importance="low", doc="How often."
    )
    auto_offset_reset = setting(
        "auto.offset.reset",
        str,
        default="latest",
        check=reset_problem,
        doc="Where to begin without a committed offset: earliest, latest, by_duration:P1D, or none to raise an error.",
    )
    isolation_level = setting(
        "isolation.level",
        str,
        default="read_uncommitted",
        one_of=("read_uncommitted", "read_committed"),
        doc="Whether records of open and aborted transactions are read.",
    )

    # --- fetching ---

    receive_buffer_bytes = setting(
        "receive.buffer.bytes",
        int,
        default=-1,
        at_least=-1,
        unit="bytes",
        aliases=["socket.receive.buffer.bytes"],
        doc="The system's buffer for receiving (SO_RCVBUF); -1 leaves it to the system, which lets it grow with the "
        "link (Java says 65536, which makes a fast link wait).",
    )
    fetch_min_bytes = setting(
        "fetch.min.bytes",
        int,
        default=1,
        at_least=0,
        unit="bytes",
        importance="high",
        doc="A broker waits for so many bytes before it answers, at most for fetch.max.wait.ms.",
    )
    fetch_max_wait_ms = setting(
        "fetch.max.wait.ms",
        int,
        default=500,
        at_least=0,
        unit="ms",
        importance="low",
        aliases=["fetch.wait.max.ms"],
        doc="How long a broker waits for fetch.min.bytes.",
    )
    fetch_max_bytes = setting(
        "fetch.max.bytes",
        int,
        default=52_428_800,
        at_least=0,
        unit="bytes",
        doc="The largest answer to one fetch; a single batch may be larger, so that reading goes on.",
    )
    max_partition_fetch_bytes = setting(
        "max.partition.fetch.bytes",
        int,
        default=1_048_576,
        at_least=0,
        unit="bytes",
        importance="high",
        aliases=["fetch.message.max.bytes"],
        doc="The most that one answer holds of one partition; a single batch may be larger, so that reading goes on.",
    )
    queued_max_bytes = setting(
        "queued.max.bytes",
        int,
        default=67_108_864,
        at_least=1,
        unit="bytes",
        aliases=[Alias("queued.max.messages.kbytes", lambda kbytes: int(kbytes) * 1024)],
        doc="The most that is fetched ahead of poll(), all partitions together (librdkafka has it, Java has not).",
    )
    max_poll_records = setting(
        "max.poll.records",
        int,
        default=500,
        at_least=1,
        doc="The most records that one poll() gives, unless it is told.",
    )
    check_crcs = setting(
        "check.crcs", bool, default=True, importance="low", doc="Whether the CRC of every batch is checked."
    )

    # --- what is read, and into what ---

    allow_auto_create_topics = setting(
        "allow.auto.create.topics",
        bool,
        default=True,
        doc="Whether subscribing to a topic that does not exist makes it, if the broker allows that.",
    )
    exclude_internal_topics = setting(
        "exclude.internal.topics",
        bool,
        default=True,
        doc="Whether a pattern leaves out topics such as __consumer_offsets.",
    )
    key_deserializer = setting(
        "key.deserializer",
        DESERIALIZER,
        default=None,
        importance="high",
        doc="Makes a key of its bytes: a callable (topic, bytes) or (bytes), or a name. None leaves bytes.",
    )
    value_deserializer = setting(
        "value.deserializer",
        DESERIALIZER,
        default=None,
        importance="high",
        doc="The same for values.",
    )
    interceptor_classes = setting(
        "interceptor.classes",
        OBJECTS,
        default=(),
        importance="low",
        aliases=["interceptors"],
        doc="Objects, or classes without arguments, with on_consume(records) and on_commit(offsets).",
    )
    ottla_tracing_enable = setting(
        "ottla.tracing.enable",
        bool,
        default=False,
        importance="low",
        doc="Whether polls make OpenTelemetry spans that link to the senders' spans; needs opentelemetry-api.",
    )
    consumer_timeout_ms = setting(
        "consumer.timeout.ms",
        int,
        default=None,
        at_least=0,
        unit="ms",
        importance="low",
        doc="Iterating ends after so long without a record; None goes on for ever (as in kafka-python).",
    )

    @property
    def reset_policy(self) -> ResetPolicy:
        return parse_reset(self.auto_offset_reset)

    def validate(self) -> None:
        super().validate()
        if self.group_protocol == "consumer":
            self._refuse_classic_settings()
        elif self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidSetting(
                f"heartbeat.interval.ms={self.heartbeat_interval_ms} must be lower than"
                f" session.timeout.ms={self.session_timeout_ms}; a third of it is a good choice"
            )
        if self.group_id is None and self.enable_auto_commit and self._is_set("enable.auto.commit"):
            raise InvalidSetting("enable.auto.commit=true needs a group.id: without one there is nowhere to commit to")
        if self.group_instance_id is not None and self.group_id is None:
            raise InvalidSetting("group.instance.id needs a group.id")

    def _refuse_classic_settings(self) -> None:
        for name in ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"):
            if self._is_set(name):
                raise InvalidSetting(
                    f"{name} has no meaning with group.protocol=consumer, where the broker decides it;"
                    " set it on the broker or leave it out"
                )

    @property
    def commits_by_itself(self) -> bool:
        """Whether positions are committed without being asked."""
        return self.enable_auto_commit and self.group_id is not None
