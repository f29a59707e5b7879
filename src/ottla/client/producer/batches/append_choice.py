"""The only place that chooses between the native hot path and its Python twin, by the rule of ottla.records.

The choice is the record codec's (OTTLA_RECORDS=native|python forces both); where this leaf was not built but the codec
was, the twin is taken, unless native was asked for by name.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from ottla.records import CHOSEN as CODEC
from ottla.records.implementation import VARIABLE

if TYPE_CHECKING:
    from ottla.client.producer.batches.arrow_rows import RowWriter
    from ottla.client.producer.batches.delivery import Delivery, SendFuture
    from ottla.client.producer.batches.producer_batch import ProducerBatch
    from ottla.client.producer.batches.topic_state import TopicState, check_many, has_text
    from ottla.client.producer.hot_path import AsyncHotPath, HotPath


def _choose() -> str:
    if CODEC == "python":
        return "python"
    if importlib.util.find_spec("ottla.client.producer.batches._append") is not None:
        return "native"
    if os.environ.get(VARIABLE) == "native":
        raise ImportError(
            f"{VARIABLE}=native asks for native leaves, but ottla.client.producer.batches._append is not built here"
        )
    return "python"


CHOSEN = _choose()

if not TYPE_CHECKING:
    if CHOSEN == "native":
        from ottla.client.producer.batches._append import (
            AsyncHotPath,
            Delivery,
            HotPath,
            ProducerBatch,
            RowWriter,
            SendFuture,
            TopicState,
            check_many,
            has_text,
        )
    else:
        from ottla.client.producer.batches.arrow_rows import RowWriter
        from ottla.client.producer.batches.delivery import Delivery, SendFuture
        from ottla.client.producer.batches.producer_batch import ProducerBatch
        from ottla.client.producer.batches.topic_state import TopicState, check_many, has_text
        from ottla.client.producer.hot_path import AsyncHotPath, HotPath

__all__ = [
    "CHOSEN",
    "AsyncHotPath",
    "Delivery",
    "HotPath",
    "ProducerBatch",
    "RowWriter",
    "SendFuture",
    "TopicState",
    "check_many",
    "has_text",
]
