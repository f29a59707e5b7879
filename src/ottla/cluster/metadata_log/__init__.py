"""The truth as Kafka 4 keeps it: records in a log, whose sum is the image.

    levels.py              which version of a record is written at which metadata.version
    partition_records.py   a partition as a record, and the difference of two
    broker_records.py      registrations of brokers and controllers as records, and the difference of two
    reading.py             records to changes
    writing.py             changes to records, and an image to the records of a snapshot
    image_changes.py       an image to the changes that make it
    batches.py             records, and control records, to the bytes of a batch and back
    loader.py              batches of a log, and snapshots, to images: what is between Begin and End is shown at once

Nothing here touches a file; the records themselves are in ottla.protocol.metadata_log.
"""
