"""A real broker for a moment: some records are written and read, then its metrics and one of its logs are kept."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import ottla
from ottla.testing import KafkaBroker

TOPIC = "clicks"


class Seen(NamedTuple):
    """The text of /metrics, and the bytes of a segment and of its index."""

    metrics: str
    segment: bytes
    index: bytes


def watched(folder: Path) -> Seen:
    """What a broker shows after a few records went through it."""
    settings = {"ottla.admin.listener": "127.0.0.1:0", "log.index.interval.bytes": 200}
    with KafkaBroker(settings, directory=folder, seed=7) as broker:
        servers = broker.bootstrap_servers
        with ottla.Producer(bootstrap_servers=servers, linger_ms=0) as producer:
            for number in range(6):
                for user in range(number + 1):
                    producer.send(TOPIC, f"page-{number}".encode(), key=f"user-{user}".encode(), partition=0)
                producer.flush()
        settings = {"bootstrap_servers": servers, "group_id": "billing", "auto_offset_reset": "earliest"}
        with ottla.Consumer(TOPIC, **settings) as consumer:
            assert consumer.poll(60), "what was written is read"
        assert broker.info.admin_address is not None, "an address was asked for"
        host, port = broker.info.admin_address
        with urlopen(f"http://{host}:{port}/metrics", timeout=60) as answer:
            metrics = answer.read().decode()
    log = folder / f"{TOPIC}-0"
    (segment,) = log.glob("*.log")
    return Seen(metrics, segment.read_bytes(), segment.with_suffix(".index").read_bytes())
