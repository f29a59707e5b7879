"""SaslHandshake (key 17): client and broker agree on a SASL mechanism.

What each version changed:

    1: followed by SaslAuthenticate requests instead of bare tokens.
"""

from ottla.protocol.schema import Int16, Message, String


class SaslHandshakeRequest(Message, versions="0-1"):
    mechanism: String


class SaslHandshakeResponse(Message, versions="0-1"):
    error_code: Int16
    mechanisms: list[String]
