"""When a broker says that it may have less than it acknowledged: only when its machine went down."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.cluster.memory_loss import BOOT_FILE, lost_memory, note_boot
from ottla.cluster.model import Broker, Endpoint
from ottla.cluster.store.zookeeper.znodes import Znode, broker_json, read_broker
from ottla.storage.directory.checkpoints import CleanShutdown
from ottla.storage.directory.directories import LogDirectory
from ottla.testing.files import MemoryFiles

DATA = Path("/data")


@pytest.fixture
def directory() -> LogDirectory:
    """Not closed in order, with one log."""
    files = MemoryFiles()
    files.make_directory(DATA / "clicks-0")
    return LogDirectory(DATA, files)


def test_a_killed_process_loses_nothing_because_the_kernel_keeps_it(directory: LogDirectory) -> None:
    note_boot([directory], "boot 1")
    assert not lost_memory([directory], "boot 1")


def test_a_machine_that_went_down_loses_what_was_not_synced(directory: LogDirectory) -> None:
    note_boot([directory], "boot 1")
    assert lost_memory([directory], "boot 2")
    note_boot([directory], "boot 2")
    assert not lost_memory([directory], "boot 2")


def test_logs_that_are_gone_altogether_are_lost_too() -> None:
    files = MemoryFiles()
    files.make_directory(DATA)
    directory = LogDirectory(DATA, files)
    note_boot([directory], "boot 1")
    assert lost_memory([directory], "boot 2")


@pytest.mark.parametrize("boot_id", ["boot 1", None])
def test_where_nobody_knows_it_counts_as_lost(directory: LogDirectory, boot_id: str | None) -> None:
    assert lost_memory([directory], boot_id)


def test_a_directory_that_was_closed_in_order_lost_nothing(directory: LogDirectory) -> None:
    directory.last_stop = CleanShutdown(broker_epoch=7)
    assert not lost_memory([directory], "boot 2")


@pytest.mark.parametrize("made", [(), ("__cluster_metadata-0",)])
def test_a_new_directory_has_nothing_to_lose(made: tuple[str, ...]) -> None:
    files = MemoryFiles()
    for name in ("", *made):
        files.make_directory(DATA / name)
    directory = LogDirectory(DATA, files)
    assert not lost_memory([directory], "boot 1")
    note_boot([directory], None)
    assert not files.exists(DATA / BOOT_FILE)


@pytest.mark.parametrize("lost", [True, False])
def test_the_registration_in_zookeeper_says_so(lost: bool) -> None:
    broker = Broker(3, (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),), lost_memory=lost)
    data = broker_json(broker, timestamp_ms=1)
    assert (b"lost_memory" in data) is lost
    assert read_broker(3, Znode(data, 0)).lost_memory is lost
