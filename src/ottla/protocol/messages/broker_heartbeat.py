"""BrokerHeartbeat (key 63): a registered broker tells the active controller how it is (KRaft clusters).

What each version changed:

    1: directories that failed (KIP-858); request gains offline_log_dirs.
    2: directories that get no new replicas (KIP-1066); request gains cordoned_log_dirs.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Int64, Message, Uuid, tagged


class BrokerHeartbeatRequest(Message, versions="0-2", flexible=0):
    broker_id: Int32
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64
    want_fence: Bool
    want_shut_down: Bool
    offline_log_dirs: list[Uuid] = tagged(0, since=1, factory=list)
    cordoned_log_dirs: list[Uuid] | None = tagged(1, since=2, default=None)


class BrokerHeartbeatResponse(Message, versions="0-2", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    is_caught_up: Bool = False
    is_fenced: Bool = True
    should_shut_down: Bool
