"""What a broker lets go is freed at once: what survives a full search for garbage is frozen (cli/collecting.py), so a
circle that ends later would stay for ever."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Consumer, Producer
from ottla.client.admin.admin import Admin
from ottla.testing import KafkaBroker

TIMES = 20
STRAY = 8  # what single clients leave when they go, however often they asked
ROOMS = ("ottla.broker.", "ottla.storage.", "ottla.net.", "ottla.cluster.")


@pytest.fixture
def no_search() -> Iterator[None]:
    gc.unfreeze()  # brokers of other tests in this process froze what they had, and are gone
    sys.last_value = sys.last_traceback = None  # what the test before this one had when it failed, if it did
    gc.collect()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def circles() -> Counter[str]:
    """Objects of the broker that only a search finds, by their class."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    kinds = (type(stray) for stray in gc.garbage)
    return Counter(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds if kind.__module__.startswith(ROOMS))


@pytest.mark.usefixtures("no_search")
def test_requests_syncs_topics_and_groups_end_without_circles(tmp_path: Path) -> None:
    with KafkaBroker(directory=tmp_path) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics(["clicks"])
        with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
            for _ in range(TIMES):
                producer.send("clicks", b"x").result()
        with Consumer(
            "clicks", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            for _ in range(TIMES):
                consumer.poll(timeout=0.01)
                consumer.commit()
        for number in range(TIMES):
            admin.create_topics([f"short-{number}"])
            admin.delete_topics([f"short-{number}"])
        strays = circles()
    assert {kind: count for kind, count in strays.items() if count > STRAY} == {}
