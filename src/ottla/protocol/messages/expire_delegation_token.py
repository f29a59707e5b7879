"""ExpireDelegationToken (key 40): let a delegation token end.

What each version changed:

    1: lowest served.
    2: flexible.
"""

from ottla.protocol.schema import Bytes, Int16, Int32, Int64, Message, secret


class ExpireDelegationTokenRequest(Message, versions="1-2", flexible=2):
    hmac: Bytes = secret()
    expiry_time_period_ms: Int64


class ExpireDelegationTokenResponse(Message, versions="1-2", flexible=2):
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
