"""What is on its way to other nodes of the quorum, and whom to leave alone for a while.

1. To one address at most one request is on its way. An answer to one that is not waited for any more is passed over.
2. After a request that failed its address is left alone for `backoff_ms`; a bootstrap server goes to the end.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cluster.raft.node import Sent
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from ottla.protocol.messages.vote import VoteRequest
from ottla.values import Address


class Peers:
    """See above."""

    def __init__(self, bootstrap: Iterable[Address], backoff_ms: int) -> None:
        self._bootstrap = list(dict.fromkeys(bootstrap))
        self._backoff_ms = backoff_ms
        self._sent: dict[Address, Sent] = {}
        self._not_before: dict[Address, int] = {}
        self._fetch_from_ms = 0

    # --- whom to ask --------------------------------------------------------------------------------------------------

    def can_ask(self, address: Address, now_ms: int) -> bool:
        return address not in self._sent and now_ms >= self._not_before.get(address, 0)

    def may_fetch(self, now_ms: int) -> bool:
        """Whether no fetch of the log is on its way, and no bootstrap server has just failed."""
        return now_ms >= self._fetch_from_ms and not any(_is_fetch(sent) for sent in self._sent.values())

    def bootstrap(self, otherwise: Iterable[Address]) -> Address | None:
        """Who may know the leader; by default the voters, as far as they are known."""
        if not self._bootstrap:
            self._bootstrap = list(dict.fromkeys(otherwise))
        return self._bootstrap[0] if self._bootstrap else None

    def send(self, sent: Sent) -> None:
        self._sent[sent.address] = sent

    # --- answers ------------------------------------------------------------------------------------------------------

    def is_open(self, sent: Sent) -> bool:
        """Whether it is still waited for; it is not any more then."""
        if self._sent.get(sent.address) is not sent:
            return False
        del self._sent[sent.address]
        return True

    def pause(self, address: Address, now_ms: int) -> None:
        """It failed."""
        self._not_before[address] = now_ms + self._backoff_ms
        if self._bootstrap and self._bootstrap[0] == address:
            self._bootstrap.append(self._bootstrap.pop(0))
            self._fetch_from_ms = max(self._fetch_from_ms, now_ms + self._backoff_ms)

    # --- another role -------------------------------------------------------------------------------------------------

    def stop_fetching(self, leader: Address | None) -> None:
        """Fetches that are on their way went to another leader; this one may be asked at once."""
        self._sent = {address: sent for address, sent in self._sent.items() if not _is_fetch(sent)}
        self._fetch_from_ms = 0
        if leader is not None:
            self._not_before.pop(leader, None)

    def stop_voting(self, voters: Iterable[Address]) -> None:
        """Votes of another election are not waited for; these may be asked at once."""
        self._sent = {at: sent for at, sent in self._sent.items() if not isinstance(sent.request, VoteRequest)}
        for address in voters:
            self._not_before.pop(address, None)

    # --- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        if self._fetch_from_ms <= now_ms:
            self._fetch_from_ms = 0
        if self._not_before:
            self._not_before = {address: pause for address, pause in self._not_before.items() if pause > now_ms}

    def wake_times(self) -> list[float]:
        """When somebody may be asked again."""
        times: list[float] = [pause for address, pause in self._not_before.items() if address not in self._sent]
        return [*times, self._fetch_from_ms] if self._fetch_from_ms else times

    def free_ms(self, address: Address) -> float | None:
        """When it may be asked; None while its answer is waited for."""
        return None if address in self._sent else self._not_before.get(address, 0)


def _is_fetch(sent: Sent) -> bool:
    return isinstance(sent.request, FetchRequest | FetchSnapshotRequest)
