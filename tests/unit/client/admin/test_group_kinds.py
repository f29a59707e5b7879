"""Plans for share groups and groups of Kafka Streams: requests out, answers in."""

from __future__ import annotations

from ottla.client.admin.cluster import LogDirDescription, Replica, ReplicaInfo, ReplicaLogDirs, directories_of
from ottla.client.admin.share_groups import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DescribeShareGroups,
    ListShareOffsets,
    ShareOffset,
)
from ottla.client.admin.streams_groups import DescribeStreamsGroups, Task
from ottla.errors import GroupIdNotFound, NonEmptyGroup, UnknownTopicOrPartition
from ottla.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_group_describe,
    streams_group_describe,
)
from ottla.values import ZERO_UUID, TopicPartition

FIRST, SECOND = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


def test_a_share_group_is_described_with_its_members() -> None:
    topics = [share_group_describe.TopicPartitions(topic_id=ZERO_UUID, topic_name="clicks", partitions=[0, 1])]
    member = share_group_describe.Member(
        member_id="m",
        member_epoch=2,
        client_id="c",
        client_host="/127.0.0.1",
        subscribed_topic_names=["clicks"],
        assignment=share_group_describe.Assignment(topic_partitions=topics),
    )
    group = share_group_describe.DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        group_epoch=3,
        assignment_epoch=3,
        assignor_name="simple",
        members=[member],
    )
    gone = share_group_describe.DescribedGroup(
        error_code=GroupIdNotFound.code,
        group_id="gone",
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
    response = share_group_describe.ShareGroupDescribeResponse(groups=[group, gone])
    results = dict(DescribeShareGroups().results(["g", "gone"], response))
    assert isinstance(results["gone"], GroupIdNotFound)
    described = results["g"]
    assert not isinstance(described, Exception)
    assert (described.state, described.assignor, described.authorized_operations) == ("Stable", "simple", None)
    assert described.members[0].assignment == {FIRST, SECOND}
    assert described.members[0].subscription == ("clicks",)


def test_offsets_of_a_share_group_are_asked_for_and_read() -> None:
    plan = ListShareOffsets({"g": [FIRST, SECOND], "all": None})
    request = plan.request(["g", "all"], 1000)
    assert isinstance(request, describe_share_group_offsets.DescribeShareGroupOffsetsRequest)
    assert [group.topics and group.topics[0].partitions for group in request.groups] == [[0, 1], None]
    partitions = [
        describe_share_group_offsets.DescribeShareGroupOffsetsResponsePartition(
            partition_index=0, start_offset=7, leader_epoch=1, lag=3, error_code=0
        ),
        describe_share_group_offsets.DescribeShareGroupOffsetsResponsePartition(
            partition_index=1, start_offset=-1, leader_epoch=-1, error_code=0
        ),
    ]
    topic = describe_share_group_offsets.DescribeShareGroupOffsetsResponseTopic(
        topic_name="clicks", topic_id=ZERO_UUID, partitions=partitions
    )
    group = describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup(
        group_id="g", topics=[topic], error_code=0
    )
    response = describe_share_group_offsets.DescribeShareGroupOffsetsResponse(groups=[group])
    assert dict(plan.results(["g"], response)) == {"g": {FIRST: ShareOffset(7, 1, 3), SECOND: None}}


def test_each_partition_that_is_moved_has_its_own_ending() -> None:
    plan = AlterShareOffsets({FIRST: 5, SECOND: 6})
    request = plan.request(["g"], 1000)
    assert isinstance(request, alter_share_group_offsets.AlterShareGroupOffsetsRequest)
    assert [each.start_offset for each in request.topics[0].partitions] == [5, 6]
    partitions = [
        alter_share_group_offsets.AlterShareGroupOffsetsResponsePartition(partition_index=index, error_code=code)
        for index, code in enumerate((0, UnknownTopicOrPartition.code))
    ]
    topic = alter_share_group_offsets.AlterShareGroupOffsetsResponseTopic(
        topic_name="clicks", topic_id=ZERO_UUID, partitions=partitions
    )
    response = alter_share_group_offsets.AlterShareGroupOffsetsResponse(error_code=0, responses=[topic])
    endings = dict(plan.results(["g"], response))["g"]
    assert isinstance(endings, dict)
    assert endings[FIRST] is None
    assert isinstance(endings[SECOND], UnknownTopicOrPartition)


def test_a_group_that_is_not_empty_refuses_as_a_whole() -> None:
    code = NonEmptyGroup.code
    altered = alter_share_group_offsets.AlterShareGroupOffsetsResponse(error_code=code, responses=[])
    deleted = delete_share_group_offsets.DeleteShareGroupOffsetsResponse(error_code=code, responses=[])
    assert isinstance(dict(AlterShareOffsets({FIRST: 5}).results(["g"], altered))["g"], NonEmptyGroup)
    assert isinstance(dict(DeleteShareOffsets(["clicks"]).results(["g"], deleted))["g"], NonEmptyGroup)


def test_a_streams_group_is_described_with_its_topology_and_tasks() -> None:
    tasks = streams_group_describe.Assignment(
        active_tasks=[streams_group_describe.TaskIds(subtopology_id="0", partitions=[0, 1])],
        standby_tasks=[],
        warmup_tasks=[streams_group_describe.TaskIds(subtopology_id="1", partitions=[2])],
    )
    member = streams_group_describe.Member(
        member_id="m",
        member_epoch=1,
        client_id="c",
        client_host="/127.0.0.1",
        topology_epoch=4,
        process_id="p",
        user_endpoint=streams_group_describe.Endpoint(host="app", port=80),
        client_tags=[streams_group_describe.KeyValue(key="zone", value="a")],
        task_offsets=[],
        task_end_offsets=[],
        assignment=tasks,
        target_assignment=tasks,
        is_classic=False,
    )
    log = streams_group_describe.TopicInfo(
        name="app-store-changelog",
        partitions=2,
        replication_factor=1,
        topic_configs=[streams_group_describe.KeyValue(key="cleanup.policy", value="compact")],
    )
    part = streams_group_describe.Subtopology(
        subtopology_id="0",
        source_topics=["clicks"],
        repartition_sink_topics=[],
        state_changelog_topics=[log],
        repartition_source_topics=[],
    )
    group = streams_group_describe.DescribedGroup(
        error_code=0,
        group_id="app",
        group_state="Stable",
        group_epoch=2,
        assignment_epoch=2,
        topology=streams_group_describe.Topology(epoch=4, subtopologies=[part]),
        members=[member],
    )
    response = streams_group_describe.StreamsGroupDescribeResponse(groups=[group])
    described = dict(DescribeStreamsGroups().results(["app"], response))["app"]
    assert not isinstance(described, Exception)
    assert (described.topology_epoch, described.subtopologies[0].source_topics) == (4, ("clicks",))
    assert described.subtopologies[0].changelog_topics[0].configs == {"cleanup.policy": "compact"}
    (found,) = described.members
    assert found.assignment.active == {Task("0", 0), Task("0", 1)}
    assert found.assignment.warmup == {Task("1", 2)}
    assert (found.user_endpoint, found.client_tags) == (("app", 80), {"zone": "a"})


def test_the_directories_of_a_copy_are_found_now_and_later() -> None:
    directories = {
        "/one": LogDirDescription(None, {FIRST: ReplicaInfo(10, 0, False)}),
        "/two": LogDirDescription(None, {FIRST: ReplicaInfo(4, 6, True)}),
    }
    assert directories_of(Replica("clicks", 0, 1), directories) == ReplicaLogDirs("/one", 0, "/two", 6)
    assert directories_of(Replica("clicks", 9, 1), directories) == ReplicaLogDirs()
