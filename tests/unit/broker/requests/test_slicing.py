"""A large request becomes several small ones, and their answers one again."""

from ottla.broker.requests.slicing import SLICE_ENTRIES, Slices, cut, join
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

NAMES = Slices("groups_names", "results", is_set=True)
TOPICS = Slices("topics", "topics", Slices("partitions", "partitions"))


def offsets(*counts):
    topics = [
        OffsetDeleteRequestTopic(
            name=f"t{number}",
            partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in range(count)],
        )
        for number, count in enumerate(counts)
    ]
    return OffsetDeleteRequest(group_id="g", topics=topics)


def answered(request):
    """What a handler would say: all is well with every partition."""
    topics = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=0)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetDeleteResponse(error_code=0, topics=topics)


def test_a_small_request_is_one_slice():
    (only,) = cut(offsets(1, 2, 3), TOPICS)
    assert only.request == offsets(1, 2, 3)


def test_a_request_without_entries_is_one_slice():
    (only,) = cut(DeleteGroupsRequest(groups_names=[]), NAMES)
    assert only.request.groups_names == []


def test_names_are_handled_a_slice_at_a_time_and_once_each():
    names = [f"g{number % 700}" for number in range(2_000)]
    parts = list(cut(DeleteGroupsRequest(groups_names=names), NAMES))
    assert [name for part in parts for name in part.request.groups_names] == list(dict.fromkeys(names))
    assert max(len(part.request.groups_names) for part in parts) == SLICE_ENTRIES


def test_answers_are_joined_in_the_order_of_the_request():
    results = [DeletableGroupResult(group_id=str(number), error_code=0) for number in range(4)]
    whole = DeleteGroupsResponse(results=results[:2])
    join(whole, DeleteGroupsResponse(results=results[2:]), NAMES, 0)
    assert [result.group_id for result in whole.results] == ["0", "1", "2", "3"]


def test_an_entry_that_is_too_large_is_cut_and_its_answers_are_one():
    request = offsets(3, 1_000, 2, 600, 1)
    parts = list(cut(request, TOPICS))
    assert all(sum(len(topic.partitions) for topic in part.request.topics) <= SLICE_ENTRIES for part in parts)
    whole = answered(parts[0].request)
    for part in parts[1:]:
        join(whole, answered(part.request), TOPICS, part.depth)
    assert whole == answered(request)
