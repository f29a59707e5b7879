"""DescribeCluster (key 60): id, controller and brokers of the cluster.

What each version changed:

    1: endpoint type: brokers or controllers; request gains endpoint_type; response gains endpoint_type.
    2: fenced brokers on demand; request gains include_fenced_brokers; response gains is_fenced.
"""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Message, String, Struct, since


class DescribeClusterRequest(Message, versions="0-2", flexible=0):
    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = since(1, default=1)
    include_fenced_brokers: Bool = since(2, default=False)


class DescribeClusterBroker(Struct):
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = None
    is_fenced: Bool = since(2, default=False)


class DescribeClusterResponse(Message, versions="0-2", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    endpoint_type: Int8 = since(1, default=1)
    cluster_id: String
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -(1 << 31)
