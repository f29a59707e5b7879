"""Who wants to append, and therefore how much of what they say is checked."""

from enum import Enum


class AppendOrigin(Enum):
    """Where a batch comes from."""

    # A stranger: everything is checked.
    CLIENT = "client"
    # A coordinator of this broker: offset commits without sequence numbers, markers that end transactions. Epochs are
    # checked, because a coordinator may have lost its office without knowing it.
    COORDINATOR = "coordinator"
    # The leader's log, or our own on start-up: it was checked when it was written, and it must not diverge.
    REPLICATION = "replication"
