"""What is raised when somebody uses a client that is closed, or that stayed behind in the parent of a fork.

Both are a missing connection that trying again cannot mend, so nobody does: loops that try again end by themselves.
"""

from __future__ import annotations

from ottla.errors import NotConnected, OttlaError


class ClientClosed(NotConnected):
    """This client is closed. Make a new one."""

    retriable = False
    refresh_metadata = False


class ForkedClient(OttlaError):
    """This client was made before the process forked, and its background thread stayed in the parent.
    Make a new client in the child process, after the fork."""
