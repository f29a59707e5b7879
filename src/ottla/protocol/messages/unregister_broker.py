"""UnregisterBroker (key 64): forget a broker that will not come back."""

from ottla.protocol.schema import Int16, Int32, Message, String


class UnregisterBrokerRequest(Message, versions="0", flexible=0):
    broker_id: Int32 = 0


class UnregisterBrokerResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
