"""kafka-delete-records: delete the oldest records of partitions, up to the offsets of a JSON file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.kafka.cluster import admin_of
from ottla.cli.kafka.ends import fail
from ottla.cli.kafka.java_errors import described
from ottla.cli.kafka.java_maps import partition_order
from ottla.cli.kafka.parser import BOOTSTRAP, COMMAND_CONFIG, parse, value
from ottla.cli.kafka.partition_files import checked_version, field_of, read_json
from ottla.cli.output import OK
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.values import TopicPartition

SUMMARY: Final = "This tool helps to delete records of the given partitions down to the specified offset."
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    value(
        "offset-json-file",
        'REQUIRED: a file like {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}',
        "Offset json file path",
    ),
)


def run(words: Sequence[str]) -> int:
    options = parse("kafka-delete-records", SUMMARY, OPTIONS, words)
    options.require("bootstrap-server", "offset-json-file")
    try:
        offsets = parse_offsets(read_json(options.text("offset-json-file")))
        with admin_of(options) as admin:
            print("Executing records delete operation")
            results = _delete(admin, offsets)
    except (OttlaError, TimeoutError, ValueError) as error:
        fail(str(error) if isinstance(error, ValueError) else described(error))
    print("Records delete operation completed:")
    for each in partition_order(results):
        found = results[each]
        if isinstance(found, int):
            print(f"partition: {each}\tlow_watermark: {found}")
        else:
            print(f"partition: {each}\terror: {described(found, each.topic)}")
    return OK


def parse_offsets(data: Any) -> dict[TopicPartition, int]:
    """Offsets by partition, of what the file says."""
    from ottla.values import TopicPartition

    data = checked_version(data)
    if "partitions" not in data:
        raise ValueError("Missing partitions field")
    found: dict[TopicPartition, int] = {}
    twice = []
    for entry in field_of(data, "partitions", list):
        partition = TopicPartition(field_of(entry, "topic", str), field_of(entry, "partition", int))
        if partition in found:
            twice.append(str(partition))
        found[partition] = field_of(entry, "offset", int)
    if twice:
        raise ValueError(f"Offset json file contains duplicate topic partitions: {','.join(dict.fromkeys(twice))}")
    return found


def _delete(admin: Admin, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | OttlaError]:
    from ottla.client.admin.plans import PartlyFailed

    try:
        return dict(admin.delete_records(offsets)) if offsets else {}
    except PartlyFailed as error:
        return {**error.succeeded, **error.failed}
    except OttlaError as error:
        if len(offsets) != 1:
            raise
        return dict.fromkeys(offsets, error)
