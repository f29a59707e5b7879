"""Brokers and controllers in the metadata log: who registered, who is fenced, who is leaving.

FenceBroker and UnfenceBroker are in logs of before metadata.version 7; from there on BrokerRegistrationChange says
both, and which log directories are there.
"""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Int64, Message, String, Struct, UInt16, Uuid, since, tagged


class BrokerEndpoint(Struct):
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


class BrokerFeature(Struct):
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


class RegisterBrokerRecord(Message, versions="0-4", flexible=0, record_type=0):
    """`broker_epoch` is the offset at which the batch of this record begins."""

    broker_id: Int32
    is_migrating_zk_broker: Bool = since(2, default=False)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: String | None
    fenced: Bool = True
    in_controlled_shutdown: Bool = since(1, default=False)
    log_dirs: list[Uuid] = tagged(0, since=3, factory=list)
    cordoned_log_dirs: list[Uuid] | None = tagged(1, since=4, default=None)


class UnregisterBrokerRecord(Message, versions="0", flexible=0, record_type=1):
    broker_id: Int32
    broker_epoch: Int64


class FenceBrokerRecord(Message, versions="0", flexible=0, record_type=7):
    id: Int32
    epoch: Int64


class UnfenceBrokerRecord(Message, versions="0", flexible=0, record_type=8):
    id: Int32
    epoch: Int64


class BrokerRegistrationChangeRecord(Message, versions="0-3", flexible=0, record_type=17):
    """`fenced`: 1 fences, -1 unfences, 0 leaves it; `in_controlled_shutdown`: 1 sets it, 0 leaves it. No log
    directories here means that they stay as they are."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = tagged(0, default=0)
    in_controlled_shutdown: Int8 = tagged(1, since=1, default=0)
    log_dirs: list[Uuid] = tagged(2, since=2, factory=list)
    cordoned_log_dirs: list[Uuid] | None = tagged(3, since=3, default=None)


class ControllerEndpoint(Struct):
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


class ControllerFeature(Struct):
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


class RegisterControllerRecord(Message, versions="0", flexible=0, record_type=27):
    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]
