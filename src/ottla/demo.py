"""`make demo`: a real broker on this machine, records through it, a restart, and the records again.

Everything is Ottla's own: the broker with its files on disk, and the wire protocol spoken through ottla.net (the client
library is the next floor). Any other Kafka client could take its place, at the address that is printed.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from ottla.clock import SystemClock
from ottla.net.node import NodeConnection
from ottla.net.peer import Peer, PeerSettings
from ottla.net.transport import TcpTransport
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records import CHOSEN, BatchBuilder, Compression, RecordStream
from ottla.testing.broker import KafkaBroker
from ottla.values import parse_address

TOPIC = "greetings"
BATCHES = 100
RECORDS_PER_BATCH = 100
FETCH_BYTES = 1 << 20


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="ottla-demo-"))
    try:
        with KafkaBroker(directory=folder) as broker:
            say(f"a broker is ready at {broker.bootstrap_servers} (record codec: {CHOSEN}; data in a scratch folder)")
            asyncio.run(write(broker.bootstrap_servers))
            asyncio.run(read(broker.bootstrap_servers))
        with KafkaBroker(directory=folder) as broker:
            say("stopped and started again on the same files:")
            asyncio.run(read(broker.bootstrap_servers))
        say("what it keeps on disk are Kafka's own files:")
        for path in sorted((folder / f"{TOPIC}-0").iterdir()):
            say(f"    {path.name:36} {path.stat().st_size:>9} bytes")
        say("\nTry it with any Kafka client:  ottla broker start  and connect to 127.0.0.1:9092")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def write(servers: str) -> None:
    node = await connected(servers)
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    await node.send(CreateTopicsRequest(topics=[topic]))
    started_s = time.perf_counter()
    # Several requests on their way at once, acks=all: each answer means that the batch is on the disk.
    answers = await asyncio.gather(*(node.send(produce_request(number), at_most=12) for number in range(BATCHES)))
    took_s = time.perf_counter() - started_s
    assert all(not part.error_code for a in answers for t in a.responses for part in t.partition_responses)
    count = BATCHES * RECORDS_PER_BATCH
    say(f"wrote {count} records in {took_s * 1000:.0f} ms, every batch synced to disk before it was acknowledged")
    await node.close()


async def read(servers: str) -> None:
    node = await connected(servers)
    started_s = time.perf_counter()
    offset, last = 0, None
    while offset < BATCHES * RECORDS_PER_BATCH:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[partition])])
        answer = await node.send(request, at_most=12)
        for batch in RecordStream(answer.responses[0].partitions[0].records):
            batch.check()
            *_, last = batch.records()
            offset = batch.next_offset
    took_s = time.perf_counter() - started_s
    say(f"read  {offset} records in {took_s * 1000:.0f} ms; the last one: {last}")
    await node.close()


async def connected(servers: str) -> NodeConnection:
    address = parse_address(servers)
    peer = Peer(address.host, address.port, random=Random(), settings=PeerSettings(client_id="demo"))
    node = NodeConnection(peer, transport=TcpTransport(), clock=SystemClock())
    await node.connect(timeout_ms=5_000)
    return node


def produce_request(number: int) -> ProduceRequest:
    builder = BatchBuilder(compression=Compression.LZ4, size_limit_bytes=1 << 20)
    for index in range(RECORDS_PER_BATCH):
        builder.append(int(time.time() * 1000), b"key", f"hello {number * RECORDS_PER_BATCH + index}".encode())
    data = PartitionProduceData(index=0, records=builder.close())
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])])


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
