"""ServedStore: the SharedStore of a broker whose cluster's truth another process of this machine keeps.

1. It is a Member (member.py) over a Connection. Calls wait for the other process, so they belong on a worker thread.
2. When the connection ended and comes back, the store has lost nothing if it still has its registrations: then the
   owner only hears of what was changed meanwhile, and who is controller. Otherwise the session is over, and a new one
   begins: SessionLost, SessionBack. An office is lost in both cases.
3. While there is no connection, what was true stays what this member knows, and the broker goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.cluster.changes import Change
from ottla.cluster.image import ClusterImage
from ottla.cluster.json_values import from_json, to_json
from ottla.cluster.model import Broker
from ottla.cluster.store.events import ConfigChanged, Controller, ControllerChanged
from ottla.cluster.store.interface import NoSession
from ottla.cluster.store.member import Member, Notice, TopicConfigs, controller_notice
from ottla.cluster.store.served.connection import Connection
from ottla.cluster.store.served.wire import read_image, read_notice, write_changes
from ottla.cluster.store.shared import news_for_all
from ottla.errors import OttlaError

START_LIMIT_S: Final = 30.0


def open_served_store(path: Path, limit_s: float = START_LIMIT_S) -> ServedStore:
    """The store behind that socket, with a session; waits until somebody answers there."""
    store = ServedStore(path)
    store.start(limit_s)
    return store


class ServedStore(Member):
    """See above."""

    blocks = True

    def __init__(self, path: Path) -> None:
        self._connection = Connection(path, self)
        self._registrations: dict[int, int] = {}
        self._has_begun = False
        super().__init__(_Remote(self._connection), ClusterImage(""))
        self.has_session = False

    def start(self, limit_s: float) -> None:
        self._connection.start(limit_s)

    def register(self, broker: Broker) -> Broker:
        registered = super().register(broker)
        self._registrations[broker.id] = registered.epoch
        return registered

    def leave(self, broker_id: int) -> None:
        super().leave(broker_id)
        self._registrations.pop(broker_id, None)

    def close(self) -> None:
        super().close()
        self._connection.close()

    # --- what the connection tells, on its thread ---

    def hello(self) -> dict[str, Any]:
        return {"registrations": sorted(map(list, self._registrations.items()))}

    def connected(self, welcome: dict[str, Any]) -> None:
        image = read_image(welcome["image"])
        if not self._has_begun:
            self._has_begun = self.has_session = True
            self._history.replace(image)
            return
        with self._lock:
            self._take_in_notices()
            news = tuple(news_for_all(self._history.image, image))
        if news:
            self.queue.put(Notice(ConfigChanged(news), news))
        if welcome["has_all"]:
            self.has_session = True
        else:
            self._registrations.clear()
            self.session_ended()
            self.session_began()
        found = welcome["controller"]
        controller = None if found is None else Controller(*found)
        self.queue.put(Notice(ControllerChanged(controller), controller_notice(controller, image.controller_epoch)))

    def noticed(self, notice: dict[str, Any]) -> None:
        self.queue.put(read_notice(notice))

    def disconnected(self) -> None:
        self.has_session = False
        self.elected = None

    def _refuse_without_session(self) -> None:
        if self.has_session or self._closed:
            super()._refuse_without_session()  # without one, a call may wait until there is one again


class _Remote:
    """The Ensemble of one member: every call is one of the connection's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._call = connection.call

    @property
    def session_timeout_ms(self) -> float:
        return self._connection.session_timeout_ms

    def commit(self, changes: Sequence[Change], elected: Controller | None, adopt: Callable[[], None]) -> None:
        self._call(
            "commit",
            changes=write_changes(list(changes)),
            elected=None if elected is None else list(elected),
            adopt=lambda value: adopt(),
        )

    def take_over(self, elected: Controller, adopt: Callable[[ClusterImage], None]) -> None:
        self._call("take_over", elected=list(elected), adopt=lambda value: adopt(read_image(value)))

    def register(self, broker: Broker) -> Broker:
        registered: Broker = from_json(Broker, self._call("register", again=True, broker=to_json(broker)))
        return registered

    def unregister(self, broker_id: int) -> None:
        self._call("unregister", broker_id=broker_id)

    def stand(self, broker_id: int) -> Controller:
        return Controller(*self._call("stand", again=True, broker_id=broker_id))

    def resign(self, elected: Controller) -> None:
        self._call("resign", elected=list(elected))

    def controller(self) -> Controller | None:
        found = self._call("controller", again=True)
        return None if found is None else Controller(*found)

    def holder_of(self, broker_id: int) -> str | None:
        found: str | None = self._call("holder_of", again=True, broker_id=broker_id)
        return found

    def registered_brokers(self) -> tuple[Broker, ...]:
        found: tuple[Broker, ...] = from_json(tuple[Broker, ...], self._call("registered_brokers", again=True))
        return found

    def topic_names(self) -> frozenset[str]:
        return frozenset(self._call("topic_names", again=True))

    def topic_settings(self, names: Sequence[str], adopt: Callable[[TopicConfigs], None]) -> None:
        self._call("topic_settings", again=True, names=list(names), adopt=adopt)

    def next_broker_number(self) -> int:
        found: int = self._call("next_broker_number")
        return found

    def announce_failed_directory(self, broker_id: int) -> None:
        self._call("announce_failed_directory", again=True, broker_id=broker_id)

    def leave(self) -> None:
        try:
            self._call("leave")
        except (NoSession, OttlaError):
            pass  # the session ends with the connection
