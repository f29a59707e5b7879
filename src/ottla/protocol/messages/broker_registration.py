"""BrokerRegistration (key 62): a broker tells the active controller that it is there (KRaft clusters).

The epoch in the answer is the offset of the record that the controller wrote for it.

What each version changed:

    1: brokers that come from ZooKeeper (KIP-866); request gains is_migrating_zk_broker.
    2: directories have ids (KIP-858); request gains log_dirs.
    3: the epoch before a clean stop (KIP-966); request gains previous_broker_epoch.
    4: the lowest level of a feature may be 0.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Int64, Message, String, Struct, UInt16, Uuid, since


class Listener(Struct):
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


class Feature(Struct):
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


class BrokerRegistrationRequest(Message, versions="0-4", flexible=0):
    broker_id: Int32
    cluster_id: String
    incarnation_id: Uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: String | None = None
    is_migrating_zk_broker: Bool = since(1, default=False)
    log_dirs: list[Uuid] = since(2, factory=list, ignorable=True)
    previous_broker_epoch: Int64 = since(3, default=-1, ignorable=True)


class BrokerRegistrationResponse(Message, versions="0-4", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    broker_epoch: Int64 = -1
