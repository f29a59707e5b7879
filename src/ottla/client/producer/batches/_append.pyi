"""Types of the native twin: those of the Python twins, name by name."""

from ottla.client.producer.batches.arrow_rows import RowWriter as RowWriter
from ottla.client.producer.batches.delivery import Delivery as Delivery
from ottla.client.producer.batches.delivery import SendFuture as SendFuture
from ottla.client.producer.batches.draining import Drainer as Drainer
from ottla.client.producer.batches.partition_queue import PartitionQueue as PartitionQueue
from ottla.client.producer.batches.produce_frames import read_accepted as read_accepted
from ottla.client.producer.batches.produce_frames import write_body as write_body
from ottla.client.producer.batches.produce_frames import write_frame as write_frame
from ottla.client.producer.batches.producer_batch import ProducerBatch as ProducerBatch
from ottla.client.producer.batches.rooms import Rooms as Rooms
from ottla.client.producer.batches.stamps import PartitionSequences as PartitionSequences
from ottla.client.producer.batches.stamps import Stamp as Stamp
from ottla.client.producer.batches.tally import Tally as Tally
from ottla.client.producer.batches.topic_state import TopicState as TopicState
from ottla.client.producer.batches.topic_state import check_many as check_many
from ottla.client.producer.batches.topic_state import has_text as has_text
from ottla.client.producer.hot_path import AsyncHotPath as AsyncHotPath
from ottla.client.producer.hot_path import HotPath as HotPath
from ottla.client.producer.hot_path import Ready as Ready
