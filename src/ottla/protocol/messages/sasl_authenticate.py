"""SaslAuthenticate (key 36): one step of a SASL exchange.

What each version changed:

    1: session life time; response gains session_lifetime_ms.
    2: flexible.
"""

from ottla.protocol.schema import Bytes, Int16, Int64, Message, String, secret, since


class SaslAuthenticateRequest(Message, versions="0-2", flexible=2):
    auth_bytes: Bytes = secret()


class SaslAuthenticateResponse(Message, versions="0-2", flexible=2):
    error_code: Int16
    error_message: String | None = None
    auth_bytes: Bytes = secret()
    session_lifetime_ms: Int64 = since(1, default=0, ignorable=True)
