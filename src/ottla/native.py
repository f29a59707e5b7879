"""The only place that chooses between native code and its Python twin.

1. LEAVES is the whole table: every module that may be native, and the module or modules that explain it in Python.
2. One rule. A leaf is native when it and the record codec were built here. OTTLA_RECORDS=python takes the twins;
   OTTLA_RECORDS=native makes a leaf that was not built an error, and not a silent change of speed.
3. One that was built but does not load is an error: the import of the room raises it.

A room imports its names by `if is_native("ottla.room._leaf"): ... else: ...` in one file of its own, because a type
checker must see both; nothing else is decided there.
"""

from __future__ import annotations

import os
from importlib.machinery import EXTENSION_SUFFIXES
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
    base = __file__.rpartition(os.sep)[0]  # without pathlib: every command comes by here, and few of them need it
    path = base + os.sep + leaf.partition(".")[2].replace(".", os.sep)
    return any(os.access(path + suffix, os.F_OK) for suffix in EXTENSION_SUFFIXES)
