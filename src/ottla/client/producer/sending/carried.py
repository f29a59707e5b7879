"""One produce request on its way: it writes its own frame, reads its own answer, and hears of its end exactly once.

1. `answered` and `failed` end it; whatever comes after the first of them is not heard.
2. What a broker calls a topic in its answer is what the request called it: the metadata may have forgotten the id by
   then, because a broker that was just started knows none.
3. The network knows it in two roles. As an Exchange (net/connection.py) it goes straight through a connection that has
   nothing to decide; in all other cases `written` is an ordinary request, and the network tells it of the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.client.connections import WatchedConnection
from ottla.client.producer.batches.append_choice import read_accepted, write_body, write_frame
from ottla.client.producer.sending.sender import Send
from ottla.protocol.api import APIS, WrittenRequest
from ottla.protocol.schema import Buffer

if TYPE_CHECKING:
    from ottla.client.producer.sending.sender_loop import SenderLoop

PRODUCE: Final = APIS[0]
NO_IDS: Final[Mapping[str, bytes]] = {}


class Carried:
    """A request and who hears of it."""

    __slots__ = ("_loop", "connection", "is_over", "send", "sent_ms", "topic_ids", "version")

    api = PRODUCE

    def __init__(
        self,
        loop: SenderLoop,
        send: Send,
        sent_ms: float,
        connection: WatchedConnection | None = None,
        version: int | None = None,
        topic_ids: Mapping[str, bytes] = NO_IDS,
    ) -> None:
        """Without connection and version it can only fail."""
        self._loop = loop
        self.send = send
        self.sent_ms = sent_ms
        self.connection = connection
        self.version = -1 if version is None else version
        self.topic_ids = topic_ids
        self.is_over = False

    # --- the request ---

    def frame(self, correlation_id: int, client_id: str | None) -> list[Buffer]:
        return write_frame(
            self.send.batches, self.topic_ids, self.version, *self._loop.terms(), correlation_id, client_id
        )

    def written(self) -> WrittenRequest:
        """The same as a request whose header somebody else writes."""
        body = write_body(self.send.batches, self.topic_ids, self.version, *self._loop.terms())
        return WrittenRequest(PRODUCE, body, self.read)

    @property
    def read(self) -> Any:
        """What reads the frame of the answer: Accepted, or None when it is to be decoded."""
        return partial(read_accepted, self.send.batches, self.topic_ids, self.version)

    # --- its end, straight from the connection ---

    def done(self) -> bool:
        return self.is_over

    def set_result(self, response: Any) -> None:
        assert self.connection is not None, "it was written to this connection"
        self._loop.minded(self, self.connection, response)
        self.answered(response)

    def set_exception(self, error: Exception) -> None:
        assert self.connection is not None, "it was written to this connection"
        self.failed(self._loop.explained(self.connection, error))

    # --- its end ---

    def answered(self, response: Any) -> None:
        """The answer came; None when none was expected."""
        if self.is_over:
            return
        self.is_over = True
        try:
            self._loop.ended(self, response)
        except Exception as error:
            self._loop.not_ended(self, error)  # what has ended already is not touched again
        finally:
            self._loop.turn_soon()

    def failed(self, error: Exception) -> None:
        """There is no answer, and why."""
        if self.is_over:
            return
        self.is_over = True
        try:
            self._loop.not_ended(self, error)
        finally:
            self._loop.turn_soon()
