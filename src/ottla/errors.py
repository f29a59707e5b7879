"""Every error once. (Stub: the full table of broker errors follows.)"""


class OttlaError(Exception):
    """Base of everything Ottla raises on purpose."""

    retriable = False


class MalformedMessage(OttlaError):
    """The bytes are not a message of the version they claim to be."""


class BrokerError(OttlaError):
    """An error with a code in Kafka's protocol."""

    code = -1


class CorruptMessage(BrokerError):
    """A record batch fails its CRC, its size or its layout."""

    code = 2
    retriable = True


class UnsupportedCompressionType(BrokerError):
    """The batch names a compression codec that does not exist or is not allowed here."""

    code = 76
