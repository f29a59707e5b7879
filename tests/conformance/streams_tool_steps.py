"""Command lines of kafka-streams-groups, and a member that makes a group of Kafka Streams; see tool_steps.py."""

import asyncio
from typing import Any

from tests.conformance.tool_steps import B, Step, lines
from tests.patience import wait_until

from ottla.client.admin.admin import Admin
from ottla.client.network import NetworkClient
from ottla.client.settings import ClientSettings
from ottla.protocol.messages import streams_group_heartbeat as streams
from ottla.values import TopicPartition

GROUP, MEMBER = "app", "AAAAAAAAAAAAAAAAAAAAAQ"
REPARTITION, CHANGELOG = f"{GROUP}-words-repartition", f"{GROUP}-counts-changelog"
STREAMS = [
    Step(f"kafka-streams-groups {B} --list --state nonsense", compared="words"),
    Step(f"kafka-topics {B} --create --topic in --partitions 2"),
    Step(f"kafka-topics {B} --create --topic {REPARTITION} --partitions 2"),
    Step(f"kafka-topics {B} --create --topic {CHANGELOG} --partitions 2 --config cleanup.policy=compact"),
    # By a key, so that they are all in partition 0.
    Step(f"kafka-console-producer {B} --topic in --reader-property parse.key=true", stdin="k\tone\nk\ttwo\nk\tthree\n"),
    Step("kafka-streams-groups"),
    Step("kafka-streams-groups --version"),
    Step("kafka-streams-groups --list"),
    Step(f"kafka-streams-groups {B} --zookeeper localhost:2181 --list"),
    *lines(
        "kafka-streams-groups",
        """
        --list
        --list --state
        --list --describe
        --group app
        --describe
        --describe --group app --members --state
        --describe --group app --state Empty
        --describe --group app --all-groups
        --list --members
        --list --group app
        --describe --group app --input-topic in
        --describe --group app
        --describe --group app --members
        --describe --group app --state
        --describe --all-groups
        --delete
        --delete --group app --all-groups
        --delete --group app --input-topic in
        --delete --group app --all-input-topics
        --delete --group app
        --delete --all-groups
        --delete --group app --execute
        --list --dry-run
        --delete-offsets --group app
        --delete-offsets --input-topic in
        --delete-offsets --group app --group other --input-topic in
        --delete-offsets --group app --input-topic in
        --delete-offsets --group app --all-input-topics
        --list --delete-all-internal-topics
        --delete --group app --delete-internal-topic x
        --reset-offsets --group app --input-topic in --to-earliest
        --reset-offsets --group app --input-topic in --to-earliest --execute --dry-run
        --reset-offsets --group app --input-topic in --to-earliest --dry-run --delete-all-internal-topics
        --reset-offsets --input-topic in --to-earliest --execute
        --reset-offsets --group app --input-topic in --to-earliest --to-latest --execute
        --reset-offsets --group app --to-earliest --dry-run
        --reset-offsets --group app --input-topic in --to-earliest --dry-run
        --reset-offsets --group app --all-input-topics --to-earliest --dry-run
        --reset-offsets --all-groups --input-topic in --to-earliest --dry-run
        """,
    ),
    Step("!streams-join"),
    *lines(
        "kafka-streams-groups",
        """
        --list
        --list --state
        --list --state stable,empty
        --list --state Empty
        --describe --group app
        --describe --group app --verbose
        --describe --group app --offsets
        --describe --group app --members
        --describe --group app --members --verbose
        --describe --group app --state
        --describe --group app --state --verbose
        --describe --all-groups --state
        --describe --group app --group nobody
        --delete --group app --group nobody
        --reset-offsets --group app --all-input-topics --to-earliest --dry-run
        --delete-offsets --group app --input-topic in
        """,
    ),
    Step("!streams-leave"),
    *lines(
        "kafka-streams-groups",
        """
        --list --state
        --describe --group app
        --describe --group app --members
        --describe --group app --state
        --reset-offsets --group app --input-topic nothing --to-earliest --dry-run
        --reset-offsets --group app --input-topic in:7 --to-earliest --dry-run
        --reset-offsets --group app --input-topic in --dry-run
        --reset-offsets --group app --input-topic app-counts-changelog --to-earliest --dry-run
        --reset-offsets --group app --input-topic in --to-latest --dry-run
        --reset-offsets --group app --all-input-topics --to-latest --dry-run
        --reset-offsets --group app --all-input-topics --to-current --dry-run
        --reset-offsets --group app --input-topic in:0 --shift-by -1 --dry-run
        --reset-offsets --group app --input-topic in:0 --to-offset 2 --dry-run --export
        --reset-offsets --all-groups --input-topic in:0 --to-offset 2 --dry-run --export
        --reset-offsets --group app --input-topic in --to-datetime 2020-01-01T00:00:00.000 --dry-run
        --reset-offsets --group app --input-topic in --to-datetime yesterday --dry-run
        --reset-offsets --group app --input-topic in --by-duration P1D --dry-run
        --reset-offsets --group app --from-file $DIR/streams.csv --dry-run
        --reset-offsets --group app --input-topic in --to-earliest --execute
        --reset-offsets --group app --input-topic in:0 --to-offset 1 --execute --delete-internal-topic nothing
        """,
    ),
    Step(
        f"kafka-streams-groups {B} --reset-offsets --group app --input-topic in:0 --shift-by 77 --dry-run",
        compared="out",
    ),
    Step("!streams-join"),
    *lines(
        "kafka-streams-groups",
        """
        --describe --group app
        --describe --group app --verbose
        --reset-offsets --group app --input-topic in --to-earliest --execute
        """,
    ),
    Step("!streams-leave"),
    *lines(
        "kafka-streams-groups",
        """
        --delete-offsets --group app --input-topic in:0 --input-topic nothing
        --delete-offsets --group app --all-input-topics
        --delete --group app --group nobody --delete-all-internal-topics
        --list
        --delete --all-groups
        """,
    ),
    Step(f"kafka-topics {B} --list", gone="repartition"),
    Step(f"kafka-groups {B} --list --streams"),
]


def join_streams_group(server: str) -> None:
    """A member of app that has all tasks: it reads `in`, repartitions by word, and counts."""
    request = _heartbeat(epoch=0, topology=_topology())

    def is_stable(admin: Admin) -> bool:
        answer = _beat(server, request)
        request.member_epoch, request.topology = answer.member_epoch, None
        if answer.active_tasks is not None:
            request.active_tasks = [
                streams.TaskIds(subtopology_id=each.subtopology_id, partitions=list(each.partitions))
                for each in answer.active_tasks
            ]
        group = admin.describe_streams_groups([GROUP])[GROUP]
        return group.state == "Stable" and len(group.members[0].assignment.active) == 4

    with Admin(bootstrap_servers=server) as admin:
        wait_until(lambda: is_stable(admin), "the member has all tasks")


def leave_streams_group(server: str) -> None:
    """Nobody is in app any more, and it has committed how far it read."""
    _beat(server, _heartbeat(epoch=-1, topology=None))
    with Admin(bootstrap_servers=server) as admin:
        wait_until(lambda: admin.describe_streams_groups([GROUP])[GROUP].state == "Empty")
        places = {TopicPartition("in", 0): 2, TopicPartition("in", 1): 0, TopicPartition(REPARTITION, 0): 0}
        admin.alter_consumer_group_offsets(GROUP, places)


STREAMS_PREPARES = {"!streams-join": join_streams_group, "!streams-leave": leave_streams_group}


def _topology() -> streams.Topology:
    repartition, changelog = (
        streams.TopicInfo(name=name, partitions=count, replication_factor=1, topic_configs=[])
        for name, count in ((REPARTITION, 2), (CHANGELOG, 0))  # a changelog has as many as its part of the topology
    )
    parts: list[dict[str, Any]] = [
        {"source_topics": ["in"], "repartition_sink_topics": [REPARTITION]},
        {"repartition_source_topics": [repartition], "state_changelog_topics": [changelog]},
    ]
    empty = (
        "source_topics",
        "source_topic_regex",
        "state_changelog_topics",
        "repartition_sink_topics",
        "repartition_source_topics",
        "copartition_groups",
    )
    found = [
        streams.Subtopology(subtopology_id=str(index), **({key: [] for key in empty} | part))
        for index, part in enumerate(parts)
    ]
    return streams.Topology(epoch=0, subtopologies=found)


def _heartbeat(epoch: int, topology: streams.Topology | None) -> streams.StreamsGroupHeartbeatRequest:
    joins = epoch == 0
    return streams.StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=MEMBER,
        member_epoch=epoch,
        endpoint_information_epoch=0,
        rebalance_timeout_ms=30_000 if joins else -1,
        topology=topology,
        active_tasks=[] if joins else None,
        standby_tasks=[] if joins else None,
        warmup_tasks=[] if joins else None,
        process_id="process" if joins else None,
        client_tags=[] if joins else None,
    )


def _beat(server: str, request: streams.StreamsGroupHeartbeatRequest) -> Any:
    async def send() -> Any:
        network = NetworkClient.from_settings(ClientSettings(bootstrap_servers=server, client_id="words"))
        try:
            answer = await network.send(await network.coordinator("group", GROUP, timeout_ms=20_000), request)
        finally:
            await network.close()
        assert answer.error_code == 0, (answer.error_code, answer.error_message)
        return answer

    return asyncio.run(send())
