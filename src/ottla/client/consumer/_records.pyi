"""Types of the native twin: those of records.py, name by name."""

from ottla.client.consumer.records import ConsumerRecord as ConsumerRecord
from ottla.client.consumer.records import FetchedRecords as FetchedRecords
from ottla.client.consumer.records import end_offset_of as end_offset_of
