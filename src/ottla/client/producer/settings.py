"""What a producer can be told. Names, defaults and the rules between them are those of Java's producer 4.x.

Idempotence is on. Settings that exclude it (acks other than all, no retries) turn it off when it was not asked for,
and are an error when it was, or when transactional.id needs it. More than five requests in flight are always an
error with idempotence: a broker remembers five batches of a producer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.client.producer.partitioner import NAMED, Partitioner, built_in
from ottla.client.serializers import SERIALIZERS, as_serializer
from ottla.client.settings import ClientSettings
from ottla.errors import InvalidSetting
from ottla.records import Compression
from ottla.records.compression import check_level
from ottla.settings import CALLABLE, LONG, Alias, Kind, setting

ACKS_ALL: Final = -1
IN_FLIGHT_LIMIT: Final = 5
"""What a broker remembers of an idempotent producer, and so the most that may be in flight."""


def _acks_problem(acks: str) -> str | None:
    return None if acks in ("all", "-1", "0", "1") else "it must be all, -1, 0 or 1"


def _parse_interceptors(value: object) -> tuple[Any, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, list | tuple):
        raise ValueError
    return tuple(value)


def _parse_serializer(value: object) -> object:
    try:
        as_serializer(value)
    except TypeError:
        raise ValueError from None
    return value


SERIALIZER: Final = Kind("CLASS", f"a function, or one of {', '.join(SERIALIZERS)}", _parse_serializer)
INTERCEPTORS: Final = Kind("LIST", "a list of objects with on_send and on_acknowledgement", _parse_interceptors)


class ProducerSettings(ClientSettings):
    # --- safety ---

    acks = setting(
        "acks",
        str,
        default="all",
        check=_acks_problem,
        aliases=["request.required.acks"],
        doc="Who must have a record before it counts as sent: all in-sync replicas (all), the leader (1), nobody (0).",
    )
    enable_idempotence = setting(
        "enable.idempotence",
        bool,
        default=True,
        importance="low",
        doc="Whether records are numbered, so that a retry can neither double nor reorder them.",
    )
    retries = setting(
        "retries",
        int,
        default=2**31 - 1,
        at_least=0,
        aliases=["message.send.max.retries"],
        doc="How often a failed batch is tried again; delivery.timeout.ms is the better limit.",
    )
    max_in_flight_requests_per_connection = setting(
        "max.in.flight.requests.per.connection",
        int,
        default=IN_FLIGHT_LIMIT,
        at_least=1,
        importance="low",
        aliases=["max.in.flight"],
        doc="Requests to one broker that may wait for their answers.",
    )
    transactional_id = setting(
        "transactional.id", str, default=None, importance="low", doc="The name under which transactions are made."
    )
    transaction_timeout_ms = setting(
        "transaction.timeout.ms",
        int,
        default=60_000,
        at_least=1,
        unit="ms",
        importance="low",
        doc="After so long the coordinator aborts a transaction that was not ended.",
    )

    # --- time ---

    linger_ms = setting(
        "linger.ms",
        LONG,
        default=5,
        at_least=0,
        unit="ms",
        aliases=["queue.buffering.max.ms"],
        doc="How long a batch may wait for more records before it is sent.",
    )
    delivery_timeout_ms = setting(
        "delivery.timeout.ms",
        int,
        default=120_000,
        at_least=0,
        unit="ms",
        aliases=["message.timeout.ms"],
        doc="When a record that was not acknowledged counts as failed, with all waiting and retries.",
    )
    max_block_ms = setting(
        "max.block.ms",
        LONG,
        default=60_000,
        at_least=0,
        unit="ms",
        doc="How long send() and its like may wait for metadata or memory.",
    )
    metadata_max_idle_ms = setting(
        "metadata.max.idle.ms",
        LONG,
        default=300_000,
        at_least=5_000,
        unit="ms",
        importance="low",
        doc="A topic that is not written to for so long is not asked about any more.",
    )

    # --- sizes ---

    batch_size = setting(
        "batch.size",
        int,
        default=262_144,
        at_least=0,
        unit="bytes",
        aliases=["max.batch.size"],
        doc="How large a batch of one partition may grow. It takes memory as it fills and leaves after linger.ms, so a "
        "large one costs neither memory nor time, and saves work on both sides. Java's default is 16384.",
    )
    buffer_memory = setting(
        "buffer.memory",
        LONG,
        default=33_554_432,
        at_least=0,
        unit="bytes",
        importance="high",
        aliases=[Alias("queue.buffering.max.kbytes", lambda kilobytes: int(kilobytes) * 1024)],
        doc="The memory for records that are not acknowledged yet; send() waits while it is used up.",
    )
    max_request_size = setting(
        "max.request.size",
        int,
        default=1_048_576,
        at_least=0,
        unit="bytes",
        aliases=["message.max.bytes"],
        doc="The largest request, and so the largest record before compression.",
    )

    send_buffer_bytes = setting(
        "send.buffer.bytes",
        int,
        default=-1,
        at_least=-1,
        unit="bytes",
        aliases=["socket.send.buffer.bytes"],
        doc="The system's buffer for sending (SO_SNDBUF); -1 leaves it to the system, which suits big batches.",
    )

    # --- compression ---

    compression_type = setting(
        "compression.type",
        str,
        default="none",
        one_of=("none", "gzip", "snappy", "lz4", "zstd"),
        importance="high",
        aliases=["compression.codec"],
        doc="How batches are compressed.",
    )
    compression_gzip_level = setting(
        "compression.gzip.level", int, default=None, at_least=-1, at_most=9, doc="gzip's level, 1 to 9; -1 is its own."
    )
    compression_lz4_level = setting(
        "compression.lz4.level",
        int,
        default=None,
        at_least=1,
        at_most=17,
        doc="lz4's level; not given is the fast one.",
    )
    compression_zstd_level = setting(
        "compression.zstd.level", int, default=None, at_least=-131_072, at_most=22, doc="zstd's level; 3 is its own."
    )
    compression_level = setting(
        "compression.level",
        int,
        default=None,
        importance="low",
        doc="librdkafka's one word for the level of whichever codec is used; -1 is the codec's own.",
    )

    # --- where records go ---

    partitioner_class = setting(
        "partitioner.class",
        CALLABLE,
        default=built_in,
        names=NAMED,
        aliases=["partitioner"],
        doc="A function of (key bytes, all partitions, available partitions), or the name of one.",
    )
    partitioner_ignore_keys = setting(
        "partitioner.ignore.keys",
        bool,
        default=False,
        importance="low",
        doc="Whether records with a key are spread like those without.",
    )
    partitioner_adaptive_partitioning_enable = setting(
        "partitioner.adaptive.partitioning.enable",
        bool,
        default=True,
        importance="low",
        doc="Whether partitions with long queues get fewer of the records without a key.",
    )
    partitioner_availability_timeout_ms = setting(
        "partitioner.availability.timeout.ms",
        LONG,
        default=0,
        at_least=0,
        unit="ms",
        importance="low",
        doc="A broker that takes no batch for so long gets no records without a key; 0 turns that off.",
    )

    # --- the way in ---

    key_serializer = setting(
        "key.serializer",
        SERIALIZER,
        default=None,
        importance="high",
        doc="What makes bytes of keys: a name (json, string, long, ...) or a function; bytes and text need none.",
    )
    value_serializer = setting(
        "value.serializer",
        SERIALIZER,
        default=None,
        importance="high",
        doc="What makes bytes of values: a name (json, string, long, ...) or a function; bytes and text need none.",
    )
    interceptor_classes = setting(
        "interceptor.classes",
        INTERCEPTORS,
        default=(),
        importance="low",
        doc="Objects that see every record before it is sent and after it is acknowledged.",
    )
    ottla_tracing_enable = setting(
        "ottla.tracing.enable",
        bool,
        default=False,
        importance="low",
        doc="Whether an OpenTelemetry span is made for each record; needs opentelemetry-api.",
    )

    # --- what follows from them ---

    @property
    def acks_on_wire(self) -> int:
        return ACKS_ALL if self.acks == "all" else int(self.acks)

    @property
    def is_idempotent(self) -> bool:
        """Whether records are numbered: what was asked for, or what the other settings allow."""
        return self.enable_idempotence and not self._what_excludes_idempotence()

    @property
    def compression(self) -> Compression:
        return Compression[self.compression_type.upper()]

    @property
    def level(self) -> int | None:
        """The level of the codec in use; None for its own."""
        own = {
            Compression.GZIP: self.compression_gzip_level,
            Compression.LZ4: self.compression_lz4_level,
            Compression.ZSTD: self.compression_zstd_level,
        }.get(self.compression)
        level = self.compression_level if own is None else own
        return None if level == -1 or self.compression in (Compression.NONE, Compression.SNAPPY) else level

    @property
    def delivery_limit_ms(self) -> int:
        """delivery.timeout.ms; when it was not given, never less than linger and one request take."""
        if self._is_set("delivery.timeout.ms"):
            return self.delivery_timeout_ms
        return max(self.delivery_timeout_ms, self._delivery_least_ms)

    @property
    def partitioner(self) -> Partitioner | None:
        """The user's own rule; None for the built-in one."""
        rule: Callable[..., int] = self.partitioner_class
        return None if rule is built_in else rule

    @property
    def _delivery_least_ms(self) -> int:
        return min(self.linger_ms + self.request_timeout_ms, 2**31 - 1)

    def _what_excludes_idempotence(self) -> str:
        if self.acks_on_wire != ACKS_ALL:
            return f"acks={self.acks}"
        return "retries=0" if self.retries == 0 else ""

    def validate(self) -> None:
        """Java's rules between the settings above."""
        super().validate()
        self._check_idempotence()
        try:
            check_level(self.compression, self.level)
        except ValueError as error:
            raise InvalidSetting(str(error)) from None
        if self._is_set("delivery.timeout.ms") and self.delivery_timeout_ms < self._delivery_least_ms:
            raise InvalidSetting(
                f"delivery.timeout.ms={self.delivery_timeout_ms} is less than linger.ms + request.timeout.ms"
                f" = {self._delivery_least_ms}; a record must live for at least one request"
            )

    def _check_idempotence(self) -> None:
        excluded_by = self._what_excludes_idempotence()
        if not self.enable_idempotence:
            if self.transactional_id is not None:
                raise InvalidSetting("transactional.id needs enable.idempotence=true; remove one of the two")
            return
        if excluded_by and (self._is_set("enable.idempotence") or self.transactional_id is not None):
            asked_by = "transactional.id" if self.transactional_id is not None else "enable.idempotence=true"
            raise InvalidSetting(f"{excluded_by} and {asked_by} exclude each other; it needs acks=all and retries")
        if not excluded_by and self.max_in_flight_requests_per_connection > IN_FLIGHT_LIMIT:
            raise InvalidSetting(
                f"max.in.flight.requests.per.connection={self.max_in_flight_requests_per_connection} is more than the"
                f" {IN_FLIGHT_LIMIT} that idempotence allows; lower it, or set enable.idempotence=false"
            )
