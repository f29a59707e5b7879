"""What the settings of a topic say about appends, spelled out for validation.py."""

from __future__ import annotations

from typing import Final

from ottla.records import Compression, TimestampType
from ottla.storage.log.validation import AppendRules
from ottla.storage.settings import LOG_APPEND_TIME, TopicSettings

_CODECS: Final = {
    "producer": None,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def rules_of(settings: TopicSettings) -> AppendRules:
    """What the settings say about appends."""
    levels = {
        "gzip": settings.compression_gzip_level,
        "lz4": settings.compression_lz4_level,
        "zstd": settings.compression_zstd_level,
    }
    is_append_time = settings.message_timestamp_type == LOG_APPEND_TIME
    return AppendRules(
        compression=_CODECS[settings.compression_type],
        compression_level=levels.get(settings.compression_type),
        timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
        timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
        timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
        message_bytes_max=settings.max_message_bytes,
        segment_bytes_max=settings.segment_limit_bytes,
        keys_required=settings.is_compacted,
    )
