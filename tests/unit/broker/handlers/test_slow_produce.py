"""A batch that takes long to look into is looked into in steps: the same outcome, and others come in between."""

import asyncio
import struct
from random import Random

import pytest

from ottla.broker.handlers.records import produce as handler
from ottla.broker.produce.admission import SLOW_BYTES, Admission, is_slow, traits_of
from ottla.broker.produce.answers import Answers
from ottla.broker.produce.frames import Produce
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.pacing import Pace, Pacing
from ottla.broker.requests.running import Running
from ottla.errors import InvalidRecord, InvalidTimestamp
from ottla.records import BatchBuilder, RecordStream
from ottla.records.checksum import crc32c
from ottla.records.compression import Compression

NOW_MS = 1_700_000_000_000


def slow_batch(count=300, compression=Compression.GZIP, **producer):
    builder = BatchBuilder(compression=compression, size_limit_bytes=1 << 20, **producer)
    source = Random(7)
    for _ in range(count):
        assert builder.append(NOW_MS, b"key", source.randbytes(100) + bytes(1000))
    return bytearray(builder.close())


def with_one_record_more(batch):
    struct.pack_into(">i", batch, 23, struct.unpack_from(">i", batch, 23)[0] + 1)
    struct.pack_into(">i", batch, 57, struct.unpack_from(">i", batch, 57)[0] + 1)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch


def test_which_requests_take_long():
    gzip, lz4 = memoryview(slow_batch()), memoryview(slow_batch(compression=Compression.LZ4))
    plain = memoryview(slow_batch(3, compression=Compression.NONE))
    assert len(gzip) > SLOW_BYTES
    assert [is_slow(batch) for batch in (gzip, lz4, plain, memoryview(slow_batch(3)))] == [True, False, False, False]
    for batches, expected in [([plain], False), ([plain, lz4], True), ([None], False), ([None] * 300, True)]:
        request = Produce(None, 1, 1000, [("orders", list(enumerate(batches)))])
        assert traits_of(request).takes_long is expected


@pytest.mark.parametrize("compression", ["producer", "zstd"])
def test_a_slow_batch_is_appended_as_any_other(make_broker, compression):
    broker = make_broker()
    broker.create_topic("orders", compression_type=compression)
    assert broker.produce("orders", slow_batch()).base_offset == 0
    assert broker.produce("orders", slow_batch(2)).base_offset == 300
    records = [record for batch in RecordStream(broker.fetch("orders").records) for record in batch.records()]
    assert len(records) in (300, 302)
    assert records[299].offset == 299


def test_a_slow_batch_that_is_not_what_it_says_is_refused(make_broker):
    broker = make_broker()
    broker.create_topic("orders")
    assert broker.produce("orders", with_one_record_more(slow_batch())).error_code == InvalidRecord.code
    assert broker.fetch("orders").high_watermark == 0


def test_a_slow_batch_that_is_there_is_not_judged_again(make_broker):
    """Its broker did not come to answer it and would refuse it today: its clock or its rules are others."""
    broker = make_broker()
    broker.create_topic("orders", message_timestamp_before_max_ms="3600000")
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    assert broker.produce("orders", slow_batch(**producer)).base_offset == 0
    broker.later(2 * 3_600_000)
    again = broker.produce("orders", slow_batch(**producer))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert broker.produce("orders", slow_batch(**producer | {"base_sequence": 300})).error_code == InvalidTimestamp.code
    assert broker.fetch("orders").high_watermark == 300


def test_others_come_in_between(make_broker):
    broker = make_broker()
    broker.create_topic("orders")
    answers = Answers([], broker.broker.progress.next_turn)
    admission = Admission(broker.broker, RequestContext(12, "test", "/127.0.0.1"), 1, 1000, answers)
    [(_, [result])] = admission.add([("orders", [(0, memoryview(slow_batch()))])])
    [(partition, write)] = admission.writes
    pace = PausingPace()
    running = broker.do(lambda: Running(handler._inspect(broker.broker, partition, write, pace)))
    for _ in range(3):
        broker.do(pace.go_on)
    assert broker.produce("orders", slow_batch(2)).base_offset == 0
    while not running.is_done:
        broker.do(pace.go_on)
    assert result.base_offset == 2


class PausingPace(Pace):
    """Pauses at every step until it is told to go on."""

    def __init__(self):
        super().__init__(Pacing(lambda: 0.0, None), None, True)
        self.future = None

    async def step(self):
        self.future = asyncio.get_running_loop().create_future()
        await self.future

    def go_on(self):
        if not self.future.done():
            self.future.set_result(None)
