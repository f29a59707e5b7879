"""DeleteTopics (key 20): remove topics.

What each version changed:

    1: lowest served.
    2: the client waits out a throttle.
    4: flexible.
    5: the error is explained; THROTTLING_QUOTA_EXCEEDED may be answered; response gains error_message.
    6: topics by id; request gains topics; request loses topic_names; response gains topic_id.
"""

from ottla.protocol.schema import ZERO_UUID, Int16, Int32, Message, String, Struct, Uuid, since


class DeleteTopicState(Struct):
    name: String | None = None
    topic_id: Uuid


class DeleteTopicsRequest(Message, versions="1-6", flexible=4):
    topics: list[DeleteTopicState] = since(6, factory=list)
    topic_names: list[String] = since(0, until=5, factory=list, ignorable=True)
    timeout_ms: Int32


class DeletableTopicResult(Struct):
    name: String | None = since(0, nullable_since=6)
    topic_id: Uuid = since(6, default=ZERO_UUID, ignorable=True)
    error_code: Int16
    error_message: String | None = since(5, default=None, ignorable=True)


class DeleteTopicsResponse(Message, versions="1-6", flexible=4):
    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult]
