"""The only place that chooses between native code and Python.

1. LEAVES is the whole table: every module that may be native, and the module or modules that explain it in Python.
2. One rule. A leaf is native when it and the record codec were built here. OTTLA_RECORDS=python takes the twins;
   OTTLA_RECORDS=native makes a leaf that was not built an error, and not a silent change of speed.
3. One that was built but does not load is an error: the import of the room raises it.

A room imports its names by `if is_native("ottla.room._leaf"): ... else: ...` in one file of its own, because a type
checker must see both; nothing else is decided there.

ROOMS are modules that a record passes in a broker. They have no twin: they are typed Python that mypyc compiles as it
stands (`make compiled`). Python imports what was compiled, where it is; OTTLA_RECORDS=python takes
the sources, and so does a checkout in which one of them is newer than what was compiled of it.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from typing import Final

VARIABLE: Final = "OTTLA_RECORDS"
CODEC: Final = "ottla.records._native"
LEAVES: Final = {
    CODEC: "batch, builder, checksum, columns, hashing, header, stream and varint in ottla.records",
    "ottla.records._checks": "ottla.records.checks, ottla.records.record_walk",
    "ottla.records._compaction": "ottla.records.compaction",
    "ottla.schemas.arrow._avro_columns": "ottla.schemas.arrow.avro_columns",
    "ottla.schemas.arrow._json_columns": "ottla.schemas.arrow.json_columns",
    "ottla.schemas.arrow._protobuf_columns": "ottla.schemas.arrow.protobuf_columns",
    "ottla.net._framing": "ottla.net.framing",
    "ottla.net.tls._data_path": "ottla.net.tls.data_path",
    "ottla.storage._reserving": "ottla.storage.reserving",
    "ottla.broker.fetch._frames": "ottla.broker.fetch.frames",
    "ottla.broker.produce._frames": "ottla.broker.produce.frames",
    "ottla.client.producer.batches._append": "delivery, producer_batch, topic_state, arrow_rows, produce_frames, "
    "stamps, partition_queue, draining, rooms and tally beside it, hot_path",
    "ottla.client.consumer._records": "ottla.client.consumer.records",
}
ROOMS: Final = (
    "ottla.broker.handlers.records.produce",
    "ottla.broker.housekeeping.flusher",
    "ottla.broker.housekeeping.sync_round",
    "ottla.broker.network.waiting_requests",
    "ottla.broker.produce.admission",
    "ottla.broker.produce.answers",
    "ottla.broker.produce.writer",
    "ottla.broker.replication.commits",
    "ottla.broker.replication.in_sync",
    "ottla.broker.replication.partition",
    "ottla.broker.replication.progress",
    "ottla.broker.replication.writes",
    "ottla.broker.requests.dispatch",
    "ottla.storage.index.offset_index",
    "ottla.storage.index.sparse_index",
    "ottla.storage.index.time_index",
    "ottla.storage.log.append",
    "ottla.storage.log.append_rules",
    "ottla.storage.log.flush",
    "ottla.storage.log.log_end",
    "ottla.storage.log.log_segments",
    "ottla.storage.log.read",
    "ottla.storage.log.validation",
    "ottla.storage.producers.check",
    "ottla.storage.producers.entry",
    "ottla.storage.producers.state",
    "ottla.storage.segment.indexes",
    "ottla.storage.segment.records_file",
    "ottla.storage.segment.segment",
    "ottla.storage.segment.segments",
)


def is_native(leaf: str) -> bool:
    """Whether the native module is to be imported, rather than its twin."""
    if leaf not in LEAVES:
        raise LookupError(f"{leaf} is not in the table of ottla.native")
    forced = os.environ.get(VARIABLE, "")
    if forced not in ("", "native", "python"):
        raise ImportError(f"{VARIABLE} is {forced!r}; it must be 'native', 'python' or not set")
    if forced == "python":
        return False
    missing = [each for each in dict.fromkeys((CODEC, leaf)) if not is_built(each)]
    if missing and forced == "native":
        raise ImportError(
            f"{VARIABLE}=native asks for native code, but {missing[0]} is not built here: "
            "run `python setup.py build_ext --inplace` with a C compiler, or unset the variable"
        )
    return not missing


def is_built(leaf: str) -> bool:
    """Whether there is a compiled module of that name for this Python. Asking loads nothing, not even its room."""
    path = _path_of(leaf)
    return any(os.access(path + suffix, os.F_OK) for suffix in EXTENSION_SUFFIXES)


def _path_of(module: str) -> str:
    """Where its file is, without an ending."""
    base = __file__.rpartition(os.sep)[0]  # without pathlib: every command comes by here, and few of them need it
    return base + os.sep + module.partition(".")[2].replace(".", os.sep)


# -- rooms that are compiled as they stand ----------------------------------------------------------------------------


class _Sources:
    """Finds rooms in their sources, although they were compiled."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name not in ROOMS:
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, f"{_path_of(name)}.py")


def choose_rooms() -> None:
    """The packages of rooms call it before one is imported. They are compiled together, so all are taken or none."""
    if _Sources in sys.meta_path or not is_built(ROOMS[0]):
        return
    if os.environ.get(VARIABLE) == "python" or not _are_current():
        sys.meta_path.insert(0, _Sources)


def are_compiled() -> bool:
    """Whether rooms run compiled in this process."""
    return is_built(ROOMS[0]) and _Sources not in sys.meta_path


def _changed_at(path: str) -> float:
    return os.stat(path).st_mtime  # noqa: PTH116 - without pathlib, see _path_of


def _are_current() -> bool:
    """Whether no source changed since it was compiled."""
    try:
        return all(
            _changed_at(f"{path}.py") <= _changed_at(path + EXTENSION_SUFFIXES[0]) for path in map(_path_of, ROOMS)
        )
    except OSError:
        return False
