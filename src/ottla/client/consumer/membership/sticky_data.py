"""The user data of Kafka's sticky assignor, written and read with the language of messages.

Version 0 lacks the generation, and nothing in the bytes says which version they are: readers try the newer one first.
"""

from ottla.protocol.schema import Int32, Message, String, Struct, since


class StickyTopic(Struct):
    topic: String
    partitions: list[Int32]


class StickyUserData(Message, versions="0-1"):
    previous_assignment: list[StickyTopic]
    generation: Int32 = since(1, default=-1, ignorable=True)
