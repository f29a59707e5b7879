"""Our batches against those of kafka-python and aiokafka: equal bytes uncompressed, equal records always."""

from types import SimpleNamespace

import cramjam
import pytest

from ottla.records import Compression

kafka_python = pytest.importorskip("kafka.record.default_records", reason="needs what pip install 'ottla[dev]' brings")
aiokafka = pytest.importorskip("aiokafka.record.default_records", reason="needs what pip install 'ottla[dev]' brings")
PEERS = {"kafka-python": kafka_python, "aiokafka": aiokafka}
# The leader epoch of a batch that no broker has seen: Java and aiokafka write -1, kafka-python 0.
LEADER_EPOCHS = {"kafka-python": 0, "aiokafka": -1}

T = 1_700_000_000_000
RECORDS = {
    "one value": [(T, None, b"value", [])],
    "keys and values": [(T + i, b"key%d" % i, b"value%d" % i * i, []) for i in range(200)],
    "nulls and empty": [(T, None, None, []), (T, b"", b"", []), (T, None, b"", []), (T, b"", None, [])],
    "headers": [
        (T, b"k", b"v", [("a", b"1"), ("b", None), ("b", b"")]),
        (T + 5, None, b"v", [("ключ", b"\x00\xff")]),
        (T + 9, None, None, [("x" * 100, b"y" * 200)]),
    ],
    "times out of order": [(T, None, b"a", []), (T - 100_000, None, b"b", []), (T + 2**33, None, b"c", [])],
    "sizes around the varint steps": [(T, b"k" * n, b"v" * n, []) for n in (62, 63, 64, 65, 8190, 8191, 8192, 8193)],
}
PRODUCERS = {
    "plain": (-1, -1, -1, False),
    "idempotent": (4711, 3, 12, False),
    "transactional": (2**62, 2**15 - 1, 2**31 - 1, True),
}


@pytest.fixture(params=PEERS)
def peer(request, monkeypatch):
    # kafka-python wants python-snappy, which only passes calls on to cramjam; the framing is its own.
    raw = SimpleNamespace(compress=cramjam.snappy.compress_raw, decompress=cramjam.snappy.decompress_raw)
    monkeypatch.setattr("kafka.codec.snappy", raw)
    return request.param


def peer_bytes(peer, records, producer=PRODUCERS["plain"], compression=Compression.NONE):
    producer_id, producer_epoch, base_sequence, transactional = producer
    builder = PEERS[peer].DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(compression),
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=1 << 20,
    )
    for offset, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    return bytes(builder.build())


def our_bytes(twin, peer, records, producer=PRODUCERS["plain"], compression=Compression.NONE):
    producer_id, producer_epoch, base_sequence, transactional = producer
    builder = twin.BatchBuilder(
        size_limit_bytes=1 << 20,
        compression=compression,
        leader_epoch=LEADER_EPOCHS[peer],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    for record in records:
        assert builder.append(*record)
    return builder.close()


def peer_reads(peer, data):
    batch = PEERS[peer].DefaultRecordBatch(data)
    assert batch.validate_crc()
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]


def expected(records):
    return [(offset, time, key, value, tuple(heads)) for offset, (time, key, value, heads) in enumerate(records)]


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("name", RECORDS)
def test_the_same_input_gives_the_same_bytes(twin, peer, name, producer):
    records = RECORDS[name]
    assert our_bytes(twin, peer, records, PRODUCERS[producer]) == peer_bytes(peer, records, PRODUCERS[producer])


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("name", RECORDS)
def test_peers_read_what_we_write(twin, peer, name, compression):
    data = our_bytes(twin, peer, RECORDS[name], compression=compression)
    assert peer_reads(peer, data) == expected(RECORDS[name])


@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("name", RECORDS)
def test_we_read_what_peers_write(twin, peer, name, compression):
    data = peer_bytes(peer, RECORDS[name], PRODUCERS["transactional"], compression)
    batch = twin.RecordBatch(data)
    batch.check()
    assert batch.tuples() == expected(RECORDS[name])
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.is_transactional) == PRODUCERS[
        "transactional"
    ]


@pytest.mark.parametrize("compression", [c for c in Compression if c])
def test_peers_do_compress_so_that_reading_them_means_something(twin, peer, compression):
    data = peer_bytes(peer, RECORDS["keys and values"], compression=compression)
    assert twin.RecordBatch(data).compression is compression
