"""The metadata log as the console shows it: who leads it, how far it is, and its last records as sentences.

A broker that keeps no metadata log says so: `is_kept` is false, and nothing else is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.console.needs import DESCRIBE_CLUSTER
from ottla.broker.http.call import Call
from ottla.broker.http.parts import Json, Query, Reply, Route, may, reply
from ottla.cluster.metadata_log.sentences import sentence
from ottla.cluster.model import METADATA_VERSION

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

RECORDS: Final = 50
RECORDS_LIMIT: Final = 200


def metadata_log(broker: Broker, count: int) -> dict[str, Json]:
    """The last `count` records, newest first, and the state of the log."""
    state, image = broker.link.log_state(), broker.image
    if state is None:
        return {"is_kept": False}
    entries = list(broker.link.newest_records(count))
    return {
        "is_kept": True,
        "leader": state.leader_id,
        "epoch": state.epoch,
        "voters": state.voters,
        "high_watermark": state.high_watermark,
        "end_offset": state.end_offset,
        "applied_offset": state.applied_offset,
        "snapshot_bytes": state.snapshot_bytes,
        "snapshot_written_ms": state.snapshot_written_ms,
        "metadata_version": image.feature(METADATA_VERSION),
        "brokers": len(image.brokers),
        "records": [
            {
                "offset": each.offset,
                "epoch": each.epoch,
                "timestamp_ms": each.timestamp_ms,
                "type": type(each.record).__name__,
                "sentence": sentence(each.record, image),
            }
            for each in reversed(entries)
        ],
    }


async def read_metadata_log(call: Call) -> Reply:
    return reply(metadata_log(call.broker, max(1, min(call.number("count", RECORDS), RECORDS_LIMIT))))


ROUTES: Final = (
    Route(
        "GET",
        "/api/metadata-log",
        read_metadata_log,
        may(DESCRIBE_CLUSTER),
        "The metadata log of this node: who leads it, how far it is, and its last records as sentences.",
        (Query("count", f"So many records, {RECORDS} by default and {RECORDS_LIMIT} at most.", "integer"),),
    ),
)
