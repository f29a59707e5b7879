"""The names of aiokafka, carried out by Ottla's asyncio client.

1. Clients are started with start() or `async with`; start() reaches the cluster and, in a group, waits for partitions.
2. Errors are aiokafka's tree (aiokafka.errors); the error of ours is the __cause__.
3. Defaults that can be seen are aiokafka's: acks=1 without idempotence, sessions of 10 s, round-robin assignment.
4. Not here: AIOKafkaClient and aiokafka's protocol, cluster and connection modules, assignors of a program's own.
   docs/migrating.md has the list, and a test compares it with the installed aiokafka.
"""

from ottla.compat.aiokafka.abc import ConsumerRebalanceListener
from ottla.compat.aiokafka.consumer import VERSION, AIOKafkaConsumer
from ottla.compat.aiokafka.errors import ConsumerStoppedError, IllegalOperation
from ottla.compat.aiokafka.producer import AIOKafkaProducer
from ottla.compat.aiokafka.structs import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = [
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
]

__version__ = VERSION
