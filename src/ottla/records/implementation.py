"""The only place that chooses between the native record codec and its Python twin.

The native one is taken when it was built. OTTLA_RECORDS=native or =python forces the choice, and then a missing
build is an error and not a silent change of speed. `CHOSEN` says which one it is, for logs and test headers.
The walks over records that a log makes (_checks) and that compaction makes (_compaction) go with the codec, each if it
was built.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from types import ModuleType

VARIABLE = "OTTLA_RECORDS"


def load_native() -> ModuleType | None:
    """The native module, or None when it was not built here. One that is there but does not load is an error."""
    if importlib.util.find_spec("ottla.records._native") is None:
        return None
    return importlib.import_module("ottla.records._native")


def choose(forced: str) -> str:
    """`native` or `python`, from what is built and what the variable says."""
    if forced not in ("", "native", "python"):
        raise ImportError(f"{VARIABLE} is {forced!r}; it must be 'native', 'python' or not set")
    if forced == "python":
        return "python"
    if load_native() is not None:
        return "native"
    if forced == "native":
        raise ImportError(
            f"{VARIABLE}=native asks for the native record codec, but ottla.records._native is not built here: "
            "run `python setup.py build_ext --inplace` with a C compiler, or unset the variable"
        )
    return "python"


CHOSEN = choose(os.environ.get(VARIABLE, ""))


def goes_along(name: str) -> bool:
    """Whether a native walk is used with the codec that was chosen."""
    if CHOSEN == "python":
        return False
    is_built = importlib.util.find_spec(f"ottla.records.{name}") is not None
    if not is_built and os.environ.get(VARIABLE) == "native":
        raise ImportError(
            f"{VARIABLE}=native, but ottla.records.{name} is not built here; build it, or unset the variable"
        )
    return is_built


if CHOSEN == "native":
    from ottla.records._native import (
        BatchBuilder,
        BatchInfo,
        Record,
        RecordBatch,
        RecordStream,
        assign_offsets,
        crc32c,
        decode_columns,
        decode_varint,
        decode_varlong,
        encode_varint,
        encode_varlong,
        murmur2,
        scan,
        set_append_time,
    )
else:
    from ottla.records.batch import Record, RecordBatch
    from ottla.records.builder import BatchBuilder
    from ottla.records.checksum import crc32c
    from ottla.records.columns import decode_columns
    from ottla.records.hashing import murmur2
    from ottla.records.header import BatchInfo, assign_offsets, scan, set_append_time
    from ottla.records.stream import RecordStream
    from ottla.records.varint import decode_varint, decode_varlong, encode_varint, encode_varlong

if goes_along("_checks"):
    from ottla.records._checks import RecordsWalk, check_records, place_plain_batch
else:
    from ottla.records.checks import check_records, place_plain_batch
    from ottla.records.record_walk import RecordsWalk

if goes_along("_compaction"):
    from ottla.records._compaction import KeyTable, filter_batches, filter_records, index_batches, index_records
else:
    from ottla.records.compaction import KeyTable, filter_batches, filter_records, index_batches, index_records

__all__ = [
    "CHOSEN",
    "BatchBuilder",
    "BatchInfo",
    "KeyTable",
    "Record",
    "RecordBatch",
    "RecordStream",
    "RecordsWalk",
    "assign_offsets",
    "check_records",
    "crc32c",
    "decode_columns",
    "decode_varint",
    "decode_varlong",
    "encode_varint",
    "encode_varlong",
    "filter_batches",
    "filter_records",
    "index_batches",
    "index_records",
    "murmur2",
    "place_plain_batch",
    "scan",
    "set_append_time",
]
