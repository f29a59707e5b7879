"""Envelope (key 58): a broker passes on what somebody else asked it.

Apache's brokers pass requests of clients on to the controller in it. Ours carry requests for the schema registry to the
broker that leads its topic (broker/registry/forwarding.py).
"""

from ottla.protocol.schema import Bytes, Int16, Message


class EnvelopeRequest(Message, versions="0", flexible=0):
    request_data: Bytes
    request_principal: Bytes | None
    client_host_address: Bytes


class EnvelopeResponse(Message, versions="0", flexible=0):
    response_data: Bytes | None = None
    error_code: Int16
