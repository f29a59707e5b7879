"""The admin client for commands: the calls of Admin, made without an event loop as long as all goes well.

    with direct_admin({"bootstrap.servers": "localhost:9092"}) as admin:
        print(admin.list_topics())

1. It is an Admin whose first try of every call is direct (direct_rounds.py): blocking sockets, and no asyncio, which
   takes longer to load than such a command to run.
2. What a first try did not end goes on in an ordinary Admin, made then, with the time that is left; so retries, waits,
   rebootstrapping and all words about failures are the ordinary ones. From then on that one makes all calls.
3. It belongs to one thread, as a command does.
4. Settings that want more than plain TCP (TLS, a login, names to be resolved) get an ordinary Admin at once.
5. When nothing listens at any address, `when_refused` hears of it at once and says how long to try on (decision 0088);
   `when_unknown` does so when nobody knows the names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.admin.admin import Admin
from ottla.client.admin.calls import AdminCalls
from ottla.client.admin.direct_rounds import DirectRounds
from ottla.client.admin.plans import Plan, Work
from ottla.client.admin.settings import AdminSettings
from ottla.clock import SystemClock
from ottla.values import Address

if TYPE_CHECKING:
    from ottla.metrics import MetricKey

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")
WhenRefused = Callable[[Sequence[Address], float], float]
"""Gets the addresses and the milliseconds that the call has; gives those for which it is tried on."""


def direct_admin(
    config: Mapping[str, object], *, when_refused: WhenRefused | None = None, when_unknown: WhenRefused | None = None
) -> Admin:
    """The admin client that loads least for these settings."""
    settings = AdminSettings(config)
    is_plain = settings.security_protocol == "PLAINTEXT" and settings.client_dns_lookup == "use_all_dns_ips"
    return DirectAdmin(config, settings, when_refused, when_unknown) if is_plain else Admin(config)


class DirectAdmin(Admin):
    """An Admin that needs a loop only when a first try is not enough."""

    def __init__(
        self,
        config: Mapping[str, object],
        settings: AdminSettings,
        when_refused: WhenRefused | None = None,
        when_unknown: WhenRefused | None = None,
    ) -> None:
        self._config = config
        self._when_refused = when_refused
        self._when_unknown = when_unknown
        self._rounds = DirectRounds(settings, SystemClock())
        self._direct = _DirectCalls(self, settings)
        self._ordinary: Admin | None = None

    @property
    def is_direct(self) -> bool:
        """Whether everything was answered at the first try until now."""
        return self._ordinary is None

    def close(self, timeout: float = 30.0) -> None:
        """End the connections; calling it twice does no harm."""
        self._rounds.close()
        if self._ordinary is not None:
            self._ordinary.close(timeout)

    def metrics(self) -> dict[MetricKey, float]:
        """Numbers of the connections, under Java's names; direct ones are not counted."""
        return {} if self._ordinary is None else self._ordinary.metrics()

    def _calls(self) -> AdminCalls:
        return self._direct

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call to its end: whatever it awaits blocks instead, so it never stops in between."""
        try:
            call.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        raise AssertionError("a direct call awaits nothing")

    def ended(self, work: Work[Any, Any], timeout_ms: float) -> None:
        """Bring all keys of the work to their end."""
        deadline_ms = SystemClock().monotonic_ms() + timeout_ms
        if self._ordinary is None:
            self._rounds.ask(work, deadline_ms)
            timeout_ms = self._heard(timeout_ms)
            deadline_ms = min(deadline_ms, SystemClock().monotonic_ms() + timeout_ms)
        if work:
            admin = self._take_ordinary()
            admin._loop.run(admin._async._carry_on(work, timeout_ms=timeout_ms, deadline_ms=deadline_ms))

    def _heard(self, timeout_ms: float) -> float:
        """How long to try on, when it is known already that nobody can be asked."""
        if self._rounds.refused and self._when_refused is not None:
            return self._when_refused(self._rounds.refused, timeout_ms)
        if self._rounds.unknown and self._when_unknown is not None:
            return self._when_unknown(self._rounds.unknown, timeout_ms)
        return timeout_ms

    def _take_ordinary(self) -> Admin:
        if self._ordinary is None:
            self._rounds.close()
            self._ordinary = Admin(self._config)
        return self._ordinary


class _DirectCalls(AdminCalls):
    """The calls, with an admin client that brings their plans to an end."""

    def __init__(self, admin: DirectAdmin, settings: AdminSettings) -> None:
        self._admin = admin
        self._settings = settings
        self._random_bytes = os.urandom

    async def _carry_out(self, plan: Plan[K, V], keys: Iterable[K], timeout: float | None) -> dict[K, V]:
        work = Work(plan, keys)
        self._admin.ended(work, self._timeout_ms(timeout))
        return work.result()

    async def _pause(self, pause_ms: float) -> None:
        admin = self._admin._take_ordinary()
        admin._loop.run(admin._async._pause(pause_ms))

    async def _find_coordinator(self, group_id: str, timeout: float | None) -> None:
        admin = self._admin._take_ordinary()
        admin._loop.run(admin._async._find_coordinator(group_id, timeout))
