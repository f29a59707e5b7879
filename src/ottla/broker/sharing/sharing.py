"""What a broker has for share groups as the leader of partitions: the sessions of members, and the share partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.requests.context import ClientConnection, RequestContext
from ottla.broker.sharing.leaders import ShareLeaders
from ottla.broker.sharing.sessions import Place, SessionKey, ShareSession, ShareSessions

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class Sharing:
    def __init__(self, broker: Broker) -> None:
        self._background = broker.background
        self.sessions = ShareSessions(lambda: broker.settings.group_share_max_share_sessions)
        self.leaders = ShareLeaders(broker)
        self._watched: set[ClientConnection] = set()  # connections whose end is awaited

    def open_session(self, key: SessionKey, wanted: Sequence[Place], context: RequestContext) -> ShareSession:
        """A session that ends with its connection, if not before."""
        session = self.sessions.open(key, wanted, context.connection)
        if context.connection is not None and context.connection not in self._watched:
            self._watched.add(context.connection)
            self._background.start(self._end_with(context.connection))
        return session

    async def _end_with(self, connection: ClientConnection) -> None:
        """The sessions of a connection end with it."""
        await connection.left()
        self._watched.discard(connection)
        for session in [each for each in self.sessions if each.connection is connection]:
            self.close_session(session.key)

    def close_session(self, key: SessionKey) -> None:
        """The member fetches here no more: what it had acquired is released."""
        if self.sessions.close(key) is None:
            return
        self.leaders.release(key.group_id, key.member_id)
        if not self.sessions.count_of(key.group_id):
            self.leaders.forget_group(key.group_id)
