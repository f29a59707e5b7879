"""The key map: what it learns from a chunk, how much memory it takes, and where it stops."""

from __future__ import annotations

import pytest

from ottla.errors import CorruptMessage
from ottla.records import BatchBuilder, Compression
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.storage.compaction.cleaned_transactions import CleanedTransactions
from ottla.storage.compaction.key_map import KeyMap
from ottla.storage.index.aborted_index import AbortedTransaction


def batch(*keys: bytes | None, base_offset: int = 0, producer: int = -1, **how: object) -> bytes:
    builder = BatchBuilder(
        base_offset=base_offset,
        producer_id=producer,
        producer_epoch=-1 if producer < 0 else 0,
        base_sequence=-1 if producer < 0 else 0,
        **how,  # type: ignore[arg-type]
    )
    for key in keys:
        builder.append(1000, key, b"value")
    return builder.close()


def keys_of(slots: int = 100, expected: int = 10**6, load_factor: float = 0.9) -> KeyMap:
    return KeyMap(24 * slots, load_factor=load_factor, offsets_expected=expected)


def test_the_table_has_the_slots_that_memory_pays_for() -> None:
    keys = keys_of(100)
    assert (keys.table.slots, keys.limit) == (100, 90)


def test_a_small_log_takes_a_small_table() -> None:
    keys = keys_of(10**9, expected=90)
    assert keys.table.slots == 101
    assert keys.limit >= 90


def test_memory_for_less_than_one_key_is_refused() -> None:
    with pytest.raises(ValueError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        keys_of(1)


@pytest.mark.parametrize("codec", list(Compression))
def test_keys_are_learned_through_every_codec(codec: Compression) -> None:
    content = batch(b"a", b"b", b"a", compression=codec) + batch(b"c", None, base_offset=3)
    keys = keys_of()
    assert keys.learn(content, CleanedTransactions(), 0) == len(content)
    assert [keys.table.get(key) for key in (b"a", b"b", b"c", b"d")] == [2, 1, 3, -1]
    assert (keys.latest_offset, len(keys), keys.record_count, keys.is_full) == (4, 3, 5, False)


def test_a_batch_that_is_cut_off_is_left_for_the_next_chunk() -> None:
    first, second = batch(b"a"), batch(b"b", base_offset=1, compression=Compression.GZIP)
    for length in range(len(first), len(first) + len(second)):
        keys = keys_of()
        assert keys.learn((first + second)[:length], CleanedTransactions(), 0) == len(first)
        assert keys.latest_offset == 0


def test_records_of_aborted_transactions_teach_nothing() -> None:
    transactions = CleanedTransactions()
    transactions.add([AbortedTransaction(7, 1, 3, 4)])
    marker = EndTransactionMarker(commit=False, coordinator_epoch=0)
    content = (
        batch(b"a")
        + batch(b"a", b"b", base_offset=1, producer=7, transactional=True)
        + end_transaction_batch(marker, producer_id=7, producer_epoch=0, timestamp_ms=1, base_offset=3)
        + batch(b"c", base_offset=4, producer=7, transactional=True)
    )
    keys = keys_of()
    assert keys.learn(content, transactions, 0) == len(content)
    assert [keys.table.get(key) for key in (b"a", b"b", b"c")] == [0, -1, 4]
    assert keys.latest_offset == 4


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_a_full_map_knows_everything_up_to_its_latest_offset(codec: Compression) -> None:
    content = batch(*(b"%d" % number for number in range(10)), compression=codec)
    keys = keys_of(5, load_factor=0.8)
    keys.learn(content, CleanedTransactions(), 0)
    assert (keys.is_full, keys.latest_offset, len(keys), keys.utilization) == (True, 3, 4, 0.8)
    following = keys_of(5, load_factor=0.8)
    following.learn(content, CleanedTransactions(), keys.latest_offset + 1)
    assert [following.table.get(b"%d" % number) for number in range(10)] == [-1] * 4 + [4, 5, 6, 7] + [-1] * 2


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_damage_is_told(codec: Compression) -> None:
    damaged = bytearray(batch(b"a", compression=codec))
    damaged[-1] ^= 1
    with pytest.raises(CorruptMessage, match="CRC"):
        keys_of().learn(bytes(damaged), CleanedTransactions(), 0)
