"""ControlledShutdown (key 7): a broker asks the controller to take its leaders before it stops (ZooKeeper).

What each version changed:

    0: request header 0: no client id.
    2: broker epoch; request gains broker_epoch.
    3: flexible.
"""

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, Struct, since


class ControlledShutdownRequest(Message, versions="0-3", flexible=3):
    broker_id: Int32
    broker_epoch: Int64 = since(2, default=-1, ignorable=True)


class RemainingPartition(Struct):
    topic_name: String
    partition_index: Int32


class ControlledShutdownResponse(Message, versions="0-3", flexible=3):
    error_code: Int16
    remaining_partitions: list[RemainingPartition]
