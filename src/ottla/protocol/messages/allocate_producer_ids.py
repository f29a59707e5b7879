"""AllocateProducerIds (key 67): a broker gets a block of producer ids from the controller."""

from ottla.protocol.schema import Int16, Int32, Int64, Message


class AllocateProducerIdsRequest(Message, versions="0", flexible=0):
    broker_id: Int32
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id_start: Int64
    producer_id_len: Int32
