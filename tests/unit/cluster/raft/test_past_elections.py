"""Who led the metadata log when: read where the log says that an epoch begins, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cluster.metadata_log.batches import control_batch, data_batch
from ottla.cluster.raft.log import LogLimits, MetadataLog
from ottla.cluster.raft.past_elections import elections
from ottla.cluster.raft.snapshots import SnapshotId, Voters
from ottla.protocol.metadata_log import encode_record
from ottla.protocol.metadata_log.control import LeaderChangeMessage, Voter
from ottla.protocol.metadata_log.transactions import NoOpRecord
from ottla.testing.files import MemoryFiles

DATA = Path("/data")
VALUE = encode_record(NoOpRecord(), 0)
VOTERS = (1, 2, 3)


@pytest.fixture
def log() -> MetadataLog:
    files = MemoryFiles()
    files.make_directory(DATA)
    files.sync_directory(DATA.parent)
    return MetadataLog.open(files, DATA, now_ms=0, limits=LogLimits(retention_bytes=0))


def elect(log: MetadataLog, epoch: int, leader_id: int, granted: tuple[int, ...], now_ms: int) -> None:
    message = LeaderChangeMessage(
        leader_id=leader_id,
        voters=[Voter(voter_id=each) for each in VOTERS],
        granting_voters=[Voter(voter_id=each) for each in granted],
    )
    write(log, control_batch([message], base_offset=log.end_offset, epoch=epoch, timestamp_ms=now_ms), epoch)


def decide(log: MetadataLog, epoch: int, now_ms: int) -> None:
    """Something large, so that an election is far from the last one."""
    write(log, data_batch([VALUE] * 500, base_offset=log.end_offset, epoch=epoch, timestamp_ms=now_ms), epoch)


def write(log: MetadataLog, batch: bytes, epoch: int) -> None:
    log.append(batch, epoch=epoch, now_ms=0)
    job = log.flush_job()
    job.run()
    log.flushed(job, 0)


def commit(log: MetadataLog) -> None:
    log.update_high_watermark(log.end_offset)


def test_the_newest_election_comes_first_with_leader_votes_and_the_time_before_it(log: MetadataLog) -> None:
    elect(log, 1, 1, (1, 2), 1_000)
    decide(log, 1, 5_000)
    elect(log, 4, 3, (2, 3), 6_500)
    commit(log)
    newest, first = elections(log, 10)
    assert newest == (4, 501, 6_500, 3, VOTERS, (2, 3), 1_500)
    assert first == (1, 0, 1_000, 1, VOTERS, (1, 2), None)


def test_only_so_many_are_read(log: MetadataLog) -> None:
    for epoch in range(1, 40):
        elect(log, epoch, 1, (1, 2), epoch)
    commit(log)
    assert [each.epoch for each in elections(log, 3)] == [39, 38, 37]


def test_what_is_not_committed_may_never_have_been(log: MetadataLog) -> None:
    elect(log, 1, 1, (1, 2), 1_000)
    commit(log)
    elect(log, 2, 2, (2, 3), 2_000)
    assert [each.epoch for each in elections(log, 10)] == [1]


def test_an_epoch_whose_beginning_is_only_in_a_snapshot_is_left_out(log: MetadataLog) -> None:
    for epoch in (1, 2):
        elect(log, epoch, epoch, (1, 2), epoch * 1_000)
        for _ in range(2):
            decide(log, epoch, epoch * 1_000)
    commit(log)
    for end_offset in (1, 1 + 1_000 + 1 + 500):
        steps = log.write_snapshot(
            SnapshotId(end_offset, 2), [VALUE], last_timestamp_ms=5, now_ms=lambda: 0, voters=Voters()
        )
        list(steps)
    list(log.clean_up(0))
    assert log.start_offset == 1_502
    elect(log, 3, 3, (1, 3), 9_000)
    commit(log)
    assert [(each.epoch, each.leader_id, each.quiet_ms) for each in elections(log, 10)] == [(3, 3, 7_000)]


def test_what_goes_while_elections_are_read_is_left_out(log: MetadataLog) -> None:
    for epoch in (1, 2, 3):
        elect(log, epoch, epoch, (1, 2), epoch * 1_000)
    commit(log)
    found = elections(log, 10)
    assert next(found).epoch == 3
    for end_offset in (1, 2):
        list(
            log.write_snapshot(
                SnapshotId(end_offset, end_offset), [VALUE], last_timestamp_ms=5, now_ms=lambda: 0, voters=Voters()
            )
        )
    list(log.clean_up(0))
    assert log.start_offset == 2
    assert list(found) == []


def test_an_empty_log_has_none(log: MetadataLog) -> None:
    assert list(elections(log, 10)) == []
