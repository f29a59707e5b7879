"""The producer's hot path: native where ottla.native says so, its Python twin otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.native import is_native

if TYPE_CHECKING or not is_native("ottla.client.producer.batches._append"):
    from ottla.client.producer.batches.arrow_rows import RowWriter
    from ottla.client.producer.batches.delivery import Delivery, SendFuture
    from ottla.client.producer.batches.draining import Drainer
    from ottla.client.producer.batches.partition_queue import PartitionQueue
    from ottla.client.producer.batches.produce_frames import read_accepted, write_body, write_frame
    from ottla.client.producer.batches.producer_batch import ProducerBatch
    from ottla.client.producer.batches.rooms import Rooms
    from ottla.client.producer.batches.stamps import PartitionSequences, Stamp
    from ottla.client.producer.batches.tally import Tally
    from ottla.client.producer.batches.topic_state import TopicState, check_many, has_text
    from ottla.client.producer.hot_path import AsyncHotPath, HotPath
else:
    from ottla.client.producer.batches._append import (
        AsyncHotPath,
        Delivery,
        Drainer,
        HotPath,
        PartitionQueue,
        PartitionSequences,
        ProducerBatch,
        Rooms,
        RowWriter,
        SendFuture,
        Stamp,
        Tally,
        TopicState,
        check_many,
        has_text,
        read_accepted,
        write_body,
        write_frame,
    )

__all__ = [
    "AsyncHotPath",
    "Delivery",
    "Drainer",
    "HotPath",
    "PartitionQueue",
    "PartitionSequences",
    "ProducerBatch",
    "Rooms",
    "RowWriter",
    "SendFuture",
    "Stamp",
    "Tally",
    "TopicState",
    "check_many",
    "has_text",
    "read_accepted",
    "write_body",
    "write_frame",
]
