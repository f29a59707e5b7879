"""Topics that Kafka Streams made for an application, repartition topics and changelogs: which they are, and how
kafka-streams-groups deletes them.

Only those are deleted that are named as Kafka Streams names them; of others it is said that they stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.group_tables import print_error
from ottla.cli.kafka.java_errors import described, first_failure
from ottla.cli.kafka.java_maps import hash_order
from ottla.errors import OttlaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.streams_groups import StreamsGroupDescription

INTERNAL: Final = re.compile(
    r".*(-changelog|-repartition|-subscription-registration-topic|-subscription-response-topic)"
    r"|.+-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic",
    re.DOTALL,
)
"""How topics end that Kafka Streams makes for an application."""


def internal_topics(groups: Iterable[StreamsGroupDescription]) -> dict[str, list[str]]:
    """The topics that the applications made for themselves, of groups that have such."""
    found = {}
    for group in groups:
        read = {topic for part in group.subtopologies for topic in part.source_topics}
        made = [
            topic.name
            for part in group.subtopologies
            for topic in (*part.repartition_source_topics, *part.changelog_topics)
            if topic.name not in read
        ]
        if topics := [topic for topic in made if _is_internal(topic, group.group_id)]:
            found[group.group_id] = topics
    return found


def _is_internal(topic: str, group: str) -> bool:
    if topic.startswith(f"{group}-") and INTERNAL.fullmatch(topic):
        return True
    print_error(
        f"The internal topic '{topic}' is not inferred as internal and thus will not be deleted with the group "
        f"'{group}'."
    )
    return False


def delete_topics(admin: Admin, topics: Mapping[str, Sequence[str]]) -> dict[str, OttlaError]:
    """Delete the topics of each group; the first error of each group that had one."""
    from ottla.client.admin.plans import PartlyFailed

    failed: dict[str, OttlaError] = {}
    for group, names in topics.items():
        try:
            admin.delete_topics(names)
        except OttlaError as error:
            for topic in error.failed if isinstance(error, PartlyFailed) else names:
                print(f"Failed to delete internal topic: {topic}")
            failed[group] = first_failure(error)  # type: ignore[assignment]
    return failed


def print_topic_deletions(groups: Sequence[str], failed: Mapping[str, OttlaError]) -> None:
    if not failed:
        names = "', '".join(groups)
        print(f"Deletion of associated internal topics of the streams groups ('{names}') was successful.")
        return
    print("Deletion of some associated internal topics failed:")
    for group in hash_order(failed):
        why = described(failed[group])
        print(f"* Internal topics of the streams group '{group}' could not be deleted due to: {why}")


def delete_after_reset(admin: Admin, group: str, topics: Sequence[str]) -> None:
    """Delete topics of a group that was reset; what fails is told, and the reset stands."""
    if not topics:
        return
    try:
        admin.delete_topics(topics)
    except OttlaError as error:
        first = first_failure(error)
        if isinstance(first, UnknownTopicOrPartition):
            print_error(f"Deleting internal topics for group '{group}' failed because the topics do not exist.")
        else:
            print_error(f"Deleting internal topics for group '{group}' failed due to {described(first)}")
