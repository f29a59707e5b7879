"""Who asked, as Kafka's default principal builder writes it into an Envelope; an int16 version stands before it."""

from ottla.protocol.schema import Bool, Message, String


class DefaultPrincipalData(Message, versions="0", flexible=0):
    type: String
    name: String
    token_authenticated: Bool = False
