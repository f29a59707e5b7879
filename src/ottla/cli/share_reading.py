"""`ottla consume --share`: records of a share group on the screen, each accepted after it was printed.

Exactly as many records are acquired as are wanted, so that other members of the group get the rest. What was acquired
and not printed is released at the end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.connecting import ensure, settings_of
from ottla.clock import SystemClock

if TYPE_CHECKING:
    from ottla.client.share.share_consumer import ShareConsumer

POLL_S: Final = 0.25
RECORDS: Final = 500


def check(options: argparse.Namespace) -> None:
    """What has no meaning for a share group is refused with what to do instead."""
    ensure(options.group is not None, "--share needs a group: add -g GROUP")
    ensure(options.partition is None, "a share group reads all partitions: leave out -p")
    ensure(options.until is None and not options.exit_at_end, "a share group has no end: stop with -n or --idle")
    setting = f"ottla config alter group {options.group} --set"
    ensure(options.offset is None, f"the group says where it begins: {setting} share.auto.offset.reset=earliest")
    ensure(not options.read_committed, f"the group says it: {setting} share.isolation.level=read_committed")


def share_consumer(options: argparse.Namespace) -> ShareConsumer:
    from ottla.client.share.share_consumer import ShareConsumer

    settings = settings_of(options)
    timeout_ms = max(int(options.timeout * 1000), 1)
    settings.setdefault("default.api.timeout.ms", timeout_ms)
    settings.setdefault("request.timeout.ms", min(timeout_ms, 30_000))  # a call takes at least one request
    settings |= {
        "group.id": options.group,
        "allow.auto.create.topics": "false",  # looking at a topic must not make it
        "share.acknowledgement.mode": "explicit",
        "share.acquire.mode": "record_limit",
    }
    return ShareConsumer(*options.topics, settings)


class ShareReading:
    """Prints what comes until it is time to stop."""

    def __init__(self, consumer: ShareConsumer, options: argparse.Namespace, shown: Callable[[Any], bytes]) -> None:
        self.count = 0
        self._consumer = consumer
        self._options = options
        self._shown = shown
        self._clock = SystemClock()
        self._last_ms = self._clock.monotonic_ms()

    def go_on(self) -> None:
        limit = self._options.num_records
        while limit is None or self.count < limit:
            wanted = RECORDS if limit is None else min(limit - self.count, RECORDS)
            self._print(self._consumer.poll(POLL_S, max_records=wanted))
            if self._is_idle():
                break

    def _print(self, records: list[Any]) -> None:
        if records or not self._consumer.assignment():
            self._last_ms = self._clock.monotonic_ms()  # before the group answers nobody is idle
        for record in records:
            sys.stdout.buffer.write(self._shown(record))
            record.accept()
        sys.stdout.buffer.flush()
        self.count += len(records)

    def _is_idle(self) -> bool:
        idle_s = (self._clock.monotonic_ms() - self._last_ms) / 1000
        return self._options.idle is not None and idle_s >= self._options.idle

    def commit(self) -> None:
        """Say what was printed; an acknowledgement that failed is an error, because the record comes again."""
        for error in self._consumer.commit().values():
            if error is not None:
                raise error
