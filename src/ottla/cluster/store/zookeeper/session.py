"""One session with a ZooKeeper ensemble: pipelined reads, transactions that are made once, watches.

1. kazoo and its threads end here. Watches and the state of the session leave through the two functions that are given
   at the beginning, which must only put something into a queue.
2. Reads are pipelined: up to `in_flight_limit` questions are under way, each for up to BULK_LIMIT nodes (bulk.py). A
   connection that breaks is waited for, as long as a session may live without one; then it is NoSession.
3. `make` turns writes into transactions of at most OPERATIONS_LIMIT operations and BYTES_LIMIT bytes, because a server
   refuses packets above 1 MiB. A commit that fits into one is made as a whole or not at all. A larger one begins with
   its first transaction, and only when that was made, the others follow, pipelined; what of them is refused leaves the
   others made (the caller reads what became of it).
4. A transaction whose answer was lost with the connection may have been made. It is sent again, and when that is
   refused, the nodes say whether the first time did it: then it counts as made, not as refused.
5. A watch fires once; after every connection that was lost all of them fire, because nobody knows what was missed.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

try:
    from kazoo import security
    from kazoo.client import KazooClient
    from kazoo.exceptions import (
        AuthFailedError,
        ConnectionClosedError,
        ConnectionLoss,
        NodeExistsError,
        NoNodeError,
        NotEmptyError,
        RolledBackError,
        RuntimeInconsistency,
        SessionExpiredError,
        UnimplementedError,
    )
    from kazoo.handlers.threading import SequentialThreadingHandler
    from kazoo.protocol import serialization
    from kazoo.protocol.states import KazooState
except ImportError as missing:
    raise ImportError("a cluster on ZooKeeper needs kazoo: pip install 'ottla[zookeeper]'") from missing

from ottla.cluster.store.interface import NoSession, StoreClosed
from ottla.cluster.store.zookeeper.bulk import NO_NODE, ReadMany
from ottla.cluster.store.zookeeper.connecting import Connection
from ottla.cluster.store.zookeeper.paths import ONLY_FOR_BROKERS, parents
from ottla.cluster.store.zookeeper.writes import Check, Create, Delete, DeleteTree, Ensure, SetData, Write
from ottla.cluster.store.zookeeper.znodes import Znode
from ottla.errors import OttlaError
from ottla.net.tls import TlsOptions, client_context

OPERATIONS_LIMIT: Final = 1_000
BYTES_LIMIT: Final = 400_000
BULK_LIMIT: Final = 200
CLOSE_LIMIT_S: Final = 3.0
ANSWER_STEP_S: Final = 0.25
_OVERHEAD_BYTES: Final = 120

log = logging.getLogger(__name__)


class Refused(OttlaError):
    """A transaction was not made, because a node is not as expected. `write` is the one it failed at."""

    def __init__(self, write: Write, reason: Exception) -> None:
        super().__init__(f"{write.path}: {type(reason).__name__}")
        self.write = write
        self.reason = reason


class _TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads, with our TLS: kazoo knows neither ciphers nor versions."""

    def __init__(self, options: TlsOptions) -> None:
        super().__init__()
        self._context = client_context(options)
        self.failure: str | None = None

    def create_connection(self, *, address: Any, hostname: str, timeout: float, **_: Any) -> Any:
        plain = super().create_connection(address=address, timeout=timeout)
        try:
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except OSError as error:
            self.failure = str(error)
            plain.close()
            raise


class Session:
    """See above. `on_watch(path)` and `on_state(is_connected, is_lost)` are called by kazoo's threads."""

    def __init__(
        self,
        connection: Connection,
        on_watch: Callable[[str], None],
        on_state: Callable[[bool, bool], None],
    ) -> None:

        self._connection = connection
        self._on_watch = on_watch
        self._on_state = on_state
        self._connected = threading.Event()
        self._chroot = connection.chroot
        self._reads_in_bulk = True
        self._closed = False
        self._watches: dict[str, Callable[[Any], None]] = {}
        tls = {} if connection.tls is None else {"use_ssl": True, "handler": _TlsHandler(connection.tls)}
        self._client = KazooClient(**connection.for_kazoo(), **tls)
        self._client.add_listener(self._state_changed)

    # --- life ---

    def start(self, *, only_reads: bool = False) -> None:
        """Connect, and make the chroot when it is not there, unless nothing is to be written; NoSession when nobody
        answers in time."""
        self._client.start_async().wait(self._connection.connect_timeout_ms / 1000)
        if not self._client.connected:
            self.close()
            raise NoSession(
                f"no ZooKeeper of {self._connection.hosts} answered within {self._connection.connect_timeout_ms} ms; "
                f"look at zookeeper.connect, and whether it runs{self._tls_failure()}"
            )
        if only_reads:
            return
        chroot, self._chroot = self._chroot, ""
        self.make([Ensure(path) for path in (*parents(chroot), chroot)] if chroot else [])
        self._chroot = chroot

    def _tls_failure(self) -> str:
        failure = getattr(self._client.handler, "failure", None)
        return f". TLS failed with: {failure}; look at zookeeper.ssl.*" if failure else ""

    def close(self) -> None:
        """End the session: what it registered is gone at once."""
        if self._closed:
            return
        self._closed = True
        self._connected.set()
        # kazoo waits for its connection to end, which takes long while it tries to connect to nobody.
        closing = threading.Thread(target=self._close_client, name="ottla-zookeeper-close", daemon=True)
        closing.start()
        closing.join(CLOSE_LIMIT_S)

    def _close_client(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:
            log.info("the connection to ZooKeeper did not end in order: %s", error)

    def dead_threads(self) -> tuple[str, ...]:
        """kazoo's threads that have ended though the session is open: nobody connects or calls us back any more.

        kazoo does not tell; what is asked here are parts of it that may have other names one day, and then live."""
        if self._closed:
            return ()
        connection = getattr(self._client, "_connection", None)
        threads = [getattr(connection, "_connection_routine", None), *getattr(self._client.handler, "_workers", ())]
        return tuple(f"kazoo's thread {each.name}" for each in threads if each is not None and not each.is_alive())

    @property
    def timeout_ms(self) -> float:
        return self._connection.session_timeout_ms

    @property
    def id(self) -> int:
        """Of the session; 0 when there is none."""
        client_id = self._client.client_id
        return client_id[0] if client_id and client_id[0] else 0

    def _state_changed(self, state: Any) -> None:
        if state == KazooState.CONNECTED:
            self._connected.set()
        elif not self._closed:
            self._connected.clear()
        self._on_state(state == KazooState.CONNECTED, state == KazooState.LOST)

    # --- reading ---

    @property
    def zxid(self) -> int:
        """How far the server was that gave the last answer; what is asked next is not older."""
        return int(self._client.last_zxid)

    def get(self, path: str, *, watch: bool = False) -> Znode | None:
        return self.get_many([path], watch=watch).get(path)

    def get_many(self, paths: Iterable[str], *, watch: bool = False) -> dict[str, Znode]:
        """The nodes that are there. A watch on one that is not fires when it comes."""

        wanted = list(dict.fromkeys(paths))
        if not watch and len(wanted) > 1 and self._reads_in_bulk:
            return self._get_in_bulk(wanted)
        found: dict[str, Znode] = {}
        absent: list[str] = []
        for path, result in self._each(
            wanted, lambda path: self._client.get_async(self._chroot + path, self._watch(path, watch))
        ):
            if isinstance(result, NoNodeError):
                absent.append(path)
            else:
                found[path] = _znode(*self._value(result))
        if watch and absent:
            found |= self._watch_absent(absent)
        return found

    def _get_in_bulk(self, wanted: list[str]) -> dict[str, Znode]:
        groups = [wanted[first : first + BULK_LIMIT] for first in range(0, len(wanted), BULK_LIMIT)]
        found: dict[str, Znode] = {}
        for group, result in self._each(groups, self._ask_in_bulk):
            if isinstance(result, UnimplementedError):
                self._reads_in_bulk = False
                return self.get_many(wanted)
            for path, outcome in zip(group, self._value(result), strict=True):
                if not isinstance(outcome, int):
                    found[path] = _znode(*outcome)
                elif outcome != NO_NODE:
                    raise NoSession(f"{path} could not be read: ZooKeeper's error {outcome}")
        return found

    def _ask_in_bulk(self, group: list[str]) -> Any:
        answer = self._client.handler.async_result()
        self._client._call(ReadMany([self._chroot + path for path in group]), answer)
        return answer

    def _watch_absent(self, paths: list[str]) -> dict[str, Znode]:
        results = self._each(
            paths, lambda path: self._client.exists_async(self._chroot + path, self._watch(path, True))
        )
        came = [path for path, stat in results if self._value(stat) is not None]
        return self.get_many(came)

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        return self.children_of([path], watch=watch)[path]

    def children_of(self, paths: Iterable[str], *, watch: bool = False) -> dict[str, list[str]]:
        """The names below each node, in order; none below one that is not there."""

        names: dict[str, list[str]] = {}
        for path, result in self._each(
            list(paths), lambda path: self._client.get_children_async(self._chroot + path, self._watch(path, watch))
        ):
            names[path] = [] if isinstance(result, NoNodeError) else sorted(self._value(result))
        return names

    def tree(self, path: str) -> list[str]:
        """A node and all below it, deepest first; nothing when it is not there."""
        if self.get(path) is None:
            return []
        found, level = [path], [path]
        while level:
            below = self.children_of(level)
            level = [f"{parent}/{name}" for parent, names in below.items() for name in names]
            found += level
        return found[::-1]

    def _watch(self, path: str, wanted: bool) -> Callable[[Any], None] | None:
        """One function per path, because kazoo keeps the same one only once."""
        return self._watches.setdefault(path, lambda event: self._on_watch(path)) if wanted else None

    # --- writing ---

    def make(self, writes: Sequence[Write], *, check: Check | None = None) -> dict[str, int]:
        """Make the writes; gives the new versions of the nodes that were written into. Refused says why not."""
        self._ensure([write.path for write in writes if isinstance(write, Ensure)], check)
        try:
            return self._make_in_order(list(_batches(self._expanded(writes, is_read=False), check)))
        except Refused as refused:
            if not isinstance(refused.write, Delete) or not isinstance(refused.reason, NoNodeError | NotEmptyError):
                raise
        # A tree is not as expected. Parts of a large one may be gone by now, so look at all of them.
        return self._make_in_order(list(_batches(self._expanded(writes, is_read=True), check)))

    def _make_in_order(self, batches: list[list[Write]]) -> dict[str, int]:
        return self._make_all(batches[:1]) | self._make_all(batches[1:])

    def _expanded(self, writes: Sequence[Write], *, is_read: bool) -> list[Write]:
        """With trees as the nodes they have, and without what `_ensure` did."""
        expanded: list[Write] = []
        for write in writes:
            if isinstance(write, DeleteTree):
                known = None if is_read else write.expected
                expanded += [Delete(path) for path in (self.tree(write.path) if known is None else known)]
            elif not isinstance(write, Ensure):
                expanded.append(write)
        return expanded

    def _ensure(self, paths: Sequence[str], check: Check | None) -> None:

        for path in dict.fromkeys(paths):
            try:
                self._make_all([[*([check] if check else []), Create(path)]])
            except Refused as refused:
                if not isinstance(refused.reason, NodeExistsError):
                    raise

    def _make_all(self, batches: list[list[Write]]) -> dict[str, int]:
        versions: dict[str, int] = {}
        refusals: list[Refused] = []
        sent = self._each(batches, self._send, is_write=True)
        for batch, answer in sent:
            lost = _is_lost(answer)
            results = self._value(answer) if not lost else self._again(batch)
            try:
                versions |= _versions(batch, results)
            except Refused as refused:
                if lost and self._was_made(batch):
                    versions |= _versions_as_meant(batch)
                else:
                    refusals.append(refused)
        if refusals:
            raise next((each for each in refusals if isinstance(each.write, Check)), refusals[0])
        return versions

    def _again(self, batch: list[Write]) -> list[Any]:
        ((_, answer),) = self._each([batch], self._send)
        results: list[Any] = self._value(answer)
        return results

    def _was_made(self, batch: list[Write]) -> bool:
        """Whether the nodes are as this transaction left them; see 4."""
        checked = [write for write in batch if not isinstance(write, Check) and not _is_sequential(write)]
        if not checked:
            return False
        write = checked[0]
        node = self.get(write.path)
        if isinstance(write, Delete):
            return node is None
        if node is None or not isinstance(write, Create | SetData) or node.data != write.data:
            return False
        return isinstance(write, Create) or node.version == write.version + 1

    def _send(self, batch: list[Write]) -> Any:

        transaction = self._client.transaction()
        for write in batch:
            path = self._chroot + write.path
            match write:
                case Create(_, data, sequential, ephemeral):
                    # kazoo's own create() takes no null data, and empty nodes of Kafka have none.
                    flags = (1 if ephemeral else 0) | (2 if sequential else 0)
                    operation = serialization.Create(path, data, self._access(write.path), flags)
                case SetData(_, data, version):
                    operation = serialization.SetData(path, data, version)
                case Delete(_, version):
                    operation = serialization.Delete(path, version)
                case Check(_, version):
                    operation = serialization.CheckVersion(path, version)
            transaction.operations.append(operation)
        return transaction.commit_async()

    def _access(self, path: str) -> Any:

        if not self._connection.set_acl:
            return security.OPEN_ACL_UNSAFE
        if path.startswith(ONLY_FOR_BROKERS):
            return security.CREATOR_ALL_ACL
        return [*security.CREATOR_ALL_ACL, *security.READ_ACL_UNSAFE]

    # --- waiting ---

    def _each(
        self, items: Sequence[Any], ask: Callable[[Any], Any], *, is_write: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        """Every item with its answer or exception, in order; up to the limit are under way. A question that was lost
        with its connection is asked again, unless it is a write: that is for the caller to say."""
        waiting: deque[tuple[Any, Any]] = deque()
        left = deque(items)
        while left or waiting:
            while left and len(waiting) < self._connection.in_flight_limit:
                item = left.popleft()
                waiting.append((item, self._ask(ask, item)))
            item, pending = waiting.popleft()
            answer = self._outcome(pending)
            while _is_lost(answer) and not is_write:
                answer = self._outcome(self._ask(ask, item))
            yield item, answer

    def _ask(self, ask: Callable[[Any], Any], item: Any) -> Any:
        if not self._connected.wait(self._connection.patience_ms / 1000):
            raise NoSession("there is no connection to ZooKeeper")
        if self._closed:
            raise StoreClosed
        return ask(item)

    def _outcome(self, pending: Any) -> Any:
        for _ in range(math.ceil(self._connection.patience_ms / 1000 / ANSWER_STEP_S)):
            pending.wait(ANSWER_STEP_S)  # in steps, because nobody answers once the session is closed
            if pending.ready() or self._closed:
                break
        if not pending.ready() and self._closed:
            raise StoreClosed
        if not pending.ready():
            raise NoSession(f"ZooKeeper did not answer within {self._connection.patience_ms} ms")
        return pending.exception if pending.exception is not None else pending.value

    def _value(self, answer: Any) -> Any:

        if isinstance(answer, ConnectionClosedError) or (self._closed and isinstance(answer, Exception)):
            raise StoreClosed from answer
        if isinstance(answer, AuthFailedError):
            raise NoSession("ZooKeeper refuses the login; look at ottla.zookeeper.sasl.*") from answer
        if isinstance(answer, SessionExpiredError):
            raise NoSession("the session with ZooKeeper expired") from answer
        if isinstance(answer, Exception):
            raise answer
        return answer


def _znode(data: bytes | None, stat: Any) -> Znode:
    return Znode(data, stat.version, stat.czxid, stat.ephemeralOwner, stat.ctime)


def _is_lost(answer: Any) -> bool:

    return isinstance(answer, ConnectionLoss)


def _is_sequential(write: Write) -> bool:
    return isinstance(write, Create) and write.sequential


def _versions(batch: Sequence[Write], results: Sequence[Any]) -> dict[str, int]:
    """The versions after a transaction; kazoo gives exceptions as results, and two kinds of them mean "not tried"."""

    for write, result in zip(batch, results, strict=True):
        if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
            raise Refused(write, result)
    made: Mapping[str, int] = {
        write.path: 0 if isinstance(write, Create) else result.version
        for write, result in zip(batch, results, strict=True)
        if isinstance(write, Create | SetData) and not _is_sequential(write)
    }
    return dict(made)


def _versions_as_meant(batch: Sequence[Write]) -> dict[str, int]:
    return {
        write.path: 0 if isinstance(write, Create) else write.version + 1
        for write in batch
        if isinstance(write, Create | SetData) and not _is_sequential(write)
    }


def _batches(writes: Sequence[Write], check: Check | None) -> Iterator[list[Write]]:
    lead: list[Write] = [check] if check else []
    batch, size = list(lead), 0
    for write in writes:
        data = write.data if isinstance(write, Create | SetData) else None
        cost = len(write.path) + len(data or b"") + _OVERHEAD_BYTES
        if len(batch) > len(lead) and (len(batch) >= OPERATIONS_LIMIT or size + cost > BYTES_LIMIT):
            yield batch
            batch, size = list(lead), 0
        batch.append(write)
        size += cost
    if len(batch) > len(lead):
        yield batch
