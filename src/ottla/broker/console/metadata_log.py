"""The metadata log as the console shows it: its quorum (quorum.py), how far this node is, and the last
records as sentences.

A broker that keeps no metadata log says so: `is_kept` is false, and nothing else is there.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.console.needs import DESCRIBE_CLUSTER
from ottla.broker.console.quorum import quorum
from ottla.broker.http.call import Call
from ottla.broker.http.parts import Json, Query, Reply, Route, may, reply
from ottla.cluster.metadata_log.sentences import sentence
from ottla.cluster.model import METADATA_VERSION
from ottla.cluster.raft.newest_records import newest_records

RECORDS: Final = 50
RECORDS_LIMIT: Final = 200


async def metadata_log(call: Call, count: int) -> dict[str, Json]:
    """The quorum, the state of the log, and its last `count` records, newest first."""
    link = call.broker.link
    log, state, image = link.metadata_log, link.log_state(), call.broker.image
    if log is None or state is None:
        return {"is_kept": False}
    return {
        "is_kept": True,
        **await quorum(call, state, log),
        "high_watermark": state.high_watermark,
        "end_offset": state.end_offset,
        "applied_offset": state.applied_offset,
        "snapshot_bytes": state.snapshot_bytes,
        "snapshot_written_ms": state.snapshot_written_ms,
        "metadata_version": image.feature(METADATA_VERSION),
        "brokers": len(image.brokers),
        "records": [
            {
                "offset": entry.offset,
                "epoch": entry.epoch,
                "timestamp_ms": entry.timestamp_ms,
                "type": type(entry.record).__name__,
                "sentence": sentence(entry.record, image),
            }
            for entry in reversed(list(newest_records(log, count)))
        ],
    }


async def read_metadata_log(call: Call) -> Reply:
    return reply(await metadata_log(call, max(1, min(call.number("count", RECORDS), RECORDS_LIMIT))))


ROUTES: Final = (
    Route(
        "GET",
        "/api/metadata-log",
        read_metadata_log,
        may(DESCRIBE_CLUSTER),
        "The quorum of the metadata log, its elections, how far this node is, and the last records as sentences.",
        (Query("count", f"So many records, {RECORDS} by default and {RECORDS_LIMIT} at most.", "integer"),),
    ),
)
