"""The sync face: a share consumer for programs that are not async.

    with ShareConsumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        for record in consumer:
            with record:                    # accepted at the end, released when it raises
                work(record.value)

or, with as many records at once as there are workers, each for as long as it takes:

        consumer.work(handle, workers=8)

1. poll() is for one thread at a time; records may be acknowledged in any thread. A thread of the consumer's own sends
   heartbeats, acknowledgements and renewals.
2. Every call ends: poll() after its timeout, commit() after default.api.timeout.ms, close() after 30 s, unless they are
   told otherwise. Ctrl-C ends any of them.
3. What is not acknowledged when the consumer is closed is released: somebody else gets it at once.

The calls themselves stand in sync_calls.py, which is made of async_calls.py, and how a thread waits in
../thread_waits.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ottla.client.share.core import ShareCore
from ottla.client.share.sync_calls import ShareCalls


class ShareConsumer(ShareCalls):
    """Reads records of a share group. Arguments are topics and one mapping of settings; keywords are settings too."""

    def __init__(self, *arguments: str | Mapping[str, object], **settings: Any) -> None:
        topics = self._prepare(arguments, settings)
        self._prepare_to_wait()
        self._core = ShareCore(self._settings, self, news=self._news.set, wake_loop=self._wake)
        self._begin(partial(self.subscribe, topics) if topics else None)
