"""DescribeLogDirs (key 35): the log directories of a broker and how much lies in them.

What each version changed:

    1: lowest served.
    2: flexible.
    3: top-level error; response gains error_code.
    4: total and usable bytes; response gains total_bytes, usable_bytes.
    5: cordoned directories; response gains is_cordoned.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Int64, Message, String, Struct, since


class DescribableLogDirTopic(Struct):
    topic: String
    partitions: list[Int32]


class DescribeLogDirsRequest(Message, versions="1-5", flexible=2):
    topics: list[DescribableLogDirTopic] | None


class DescribeLogDirsPartition(Struct):
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


class DescribeLogDirsTopic(Struct):
    name: String
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    error_code: Int16
    log_dir: String
    topics: list[DescribeLogDirsTopic]
    total_bytes: Int64 = since(4, default=-1, ignorable=True)
    usable_bytes: Int64 = since(4, default=-1, ignorable=True)
    is_cordoned: Bool = since(5, default=False, ignorable=True)


class DescribeLogDirsResponse(Message, versions="1-5", flexible=2):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, default=0, ignorable=True)
    results: list[DescribeLogDirsResult]
