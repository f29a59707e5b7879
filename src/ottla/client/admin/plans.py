"""How a call is carried out, without a socket: whom to ask, what, and what the answer means.

1. A plan has keys (topics, partitions, groups, brokers, ...), and each ends exactly once, with a value or an error.
2. The route says who knows about a key: any broker, the controller, the leader of its partition, the coordinator of
   its group or transactional id, or one broker by its number. Keys for the same broker share a request, unless the
   plan says that a request has room for one.
3. What may be tried again is on the error class: retriable errors are, but for those the plan calls final, after
   looking up the leader or coordinator again where the class asks for that; all others end their key. A key that an
   answer does not mention has failed too.
4. An answer may be lost although the request was carried out. Where the plan knows an error by which the repeated
   request says so (`presumed_done_after`), the key ends with what the plan presumes.
5. `Work` is the state of a call: pending keys, results, and the error each key had last, which is what is raised when
   time is over, because "time is over" alone helps nobody.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from ottla.errors import (
    BrokerError,
    ConnectionClosed,
    MalformedMessage,
    OttlaError,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
    broker_error,
)
from ottla.protocol.schema import Message
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.settings import AdminSettings

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAY_BE_DONE: Final = (RequestTimedOut, ConnectionClosed)
"""After these nobody knows whether the request was carried out."""


class Route(enum.Enum):
    """Who is asked."""

    ANY = "any broker"
    CONTROLLER = "the controller"
    LEADER = "the leader of the partition"
    GROUP = "the coordinator of the group"
    TRANSACTION = "the coordinator of the transactional id"
    BROKER = "a broker by its id"


Target: TypeAlias = TopicPartition | str | int | None
"""What finds the node for a key: a partition, the id of a group or transaction, a broker's id; None for any."""


class Plan(abc.ABC, Generic[K, V]):
    """One call. A class per API; the arguments of the call are its fields."""

    route: ClassVar[Route] = Route.ANY
    one_key_per_request: ClassVar[bool] = False
    final: ClassVar[tuple[type[OttlaError], ...]] = (UnknownTopicOrPartition, UnknownTopicId)
    """Retriable errors that are the answer here: who asks about a topic that is not there wants to hear it."""
    presumed_done_after: ClassVar[tuple[type[OttlaError], ...]] = ()
    """Errors that mean, where an answer to the same request was lost before, that it was carried out then."""
    at_most: ClassVar[int | None] = None
    """The highest version of the request that this plan can read and write; None: all of them."""

    def target(self, key: K) -> Target:
        """What leads to the node that knows about `key`."""
        if isinstance(key, TopicPartition | str | int):
            return key
        return None

    @abc.abstractmethod
    def request(self, keys: Sequence[K], timeout_ms: int) -> Message:
        """The request about these keys."""

    @abc.abstractmethod
    def results(self, keys: Sequence[K], response: Any) -> Iterable[tuple[K, V | OttlaError]]:
        """What the answer says about each key."""

    def presumed(self, key: K, error: OttlaError) -> V:
        """The value of a key that was settled by an error, in plans that have such errors (`presumed_done_after`)."""
        raise AssertionError(f"{type(self).__name__} presumes nothing")

    def answered_by(self, value: V, node_id: int) -> V:
        """The value, with who told it where that belongs to it."""
        return value


class Question(Plan[None, V]):
    """A call about no thing in particular: one request, one answer."""

    @abc.abstractmethod
    def ask(self, timeout_ms: int) -> Message: ...

    @abc.abstractmethod
    def answer(self, response: Any) -> V:
        """What the answer says; raises what it says went wrong."""

    def request(self, keys: Sequence[None], timeout_ms: int) -> Message:
        return self.ask(timeout_ms)

    def results(self, keys: Sequence[None], response: Any) -> Iterator[tuple[None, V | OttlaError]]:
        try:
            yield None, self.answer(response)
        except BrokerError as error:
            yield None, error


class BrokerQuestion(Plan[int, V]):
    """The same question to several brokers; the keys are their ids."""

    route = Route.BROKER
    one_key_per_request = True

    @abc.abstractmethod
    def ask(self, timeout_ms: int) -> Message: ...

    @abc.abstractmethod
    def answer(self, response: Any) -> V: ...

    def request(self, keys: Sequence[int], timeout_ms: int) -> Message:
        return self.ask(timeout_ms)

    def results(self, keys: Sequence[int], response: Any) -> Iterator[tuple[int, V | OttlaError]]:
        for key in keys:
            try:
                yield key, self.answer(response)
            except BrokerError as error:
                yield key, error


class Carrier(abc.ABC):
    """Carries out plans: what all calls ask of the admin client that has them."""

    _settings: AdminSettings

    @abc.abstractmethod
    async def _carry_out(self, plan: Plan[K, V], keys: Iterable[K], timeout: float | None) -> dict[K, V]:
        """What became of each key, within the time-out in seconds."""

    @abc.abstractmethod
    async def _find_coordinator(self, group_id: str, timeout: float | None) -> None:
        """Have the coordinator of a group looked up, whoever it is."""

    @abc.abstractmethod
    async def _pause(self, pause_ms: float) -> None:
        """Wait before something is asked again."""

    async def _ask(self, question: Question[V], timeout: float | None) -> V:
        return (await self._carry_out(question, [None], timeout))[None]

    def _timeout_ms(self, timeout: float | None) -> float:
        return float(self._settings.call_timeout_ms) if timeout is None else timeout * 1000


class PartlyFailed(OttlaError):
    """Some of what was asked for was done and some was not.
    `failed` has the error of each thing that failed, `succeeded` the results of the others."""

    def __init__(self, succeeded: Mapping[Any, Any], failed: Mapping[Any, OttlaError]) -> None:
        first, error = next(iter(failed.items()))
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        detail = f"{len(failed)} of {len(failed) + len(succeeded)} failed: {first} because {error}{more}"
        super().__init__(detail)
        self.succeeded = dict(succeeded)
        self.failed = dict(failed)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.succeeded, self.failed)


class Work(Generic[K, V]):
    """What of one call is done and what is still to be asked."""

    def __init__(self, plan: Plan[K, V], keys: Iterable[K]) -> None:
        self.plan = plan
        self.asked = tuple(dict.fromkeys(keys))
        self.pending: dict[K, None] = dict.fromkeys(self.asked)
        self.done: dict[K, V] = {}
        self.failed: dict[K, OttlaError] = {}
        self.last_error: dict[K, OttlaError] = {}
        self._unanswered: set[K] = set()

    def __bool__(self) -> bool:
        return bool(self.pending)

    def portions(self, keys: Sequence[K]) -> list[list[K]]:
        """How the keys for one node are spread over requests."""
        if self.plan.one_key_per_request:
            return [[key] for key in keys]
        return [list(keys)] if keys else []

    def answered(self, keys: Sequence[K], response: Any, node_id: int | None = None) -> list[tuple[K, OttlaError]]:
        """Take an answer, from that node; returns the keys that must be asked again, and why."""
        again: list[tuple[K, OttlaError]] = []
        for key, result in self.plan.results(keys, response):
            if key not in self.pending:
                continue
            if isinstance(result, OttlaError):
                if self._failed(key, result):
                    again.append((key, result))
            else:
                self._succeeded(key, result if node_id is None else self.plan.answered_by(result, node_id))
        retried = {key for key, _ in again}
        for key in keys:
            if key in self.pending and key not in retried:
                self._end(key, MalformedMessage(f"the broker's answer says nothing about {key}"))
        return again

    def not_asked(self, keys: Sequence[K], error: OttlaError) -> list[tuple[K, OttlaError]]:
        """The request did not come through; returns the keys that must be asked again."""
        return [(key, error) for key in keys if key in self.pending and self._failed(key, error)]

    def refused(self, key: K, error: OttlaError) -> None:
        """The key has failed for good, whatever the class of the error says about trying again."""
        self._end(key, error)

    def time_is_over(self, default: OttlaError) -> None:
        """Whatever is pending has failed, with the last error it had."""
        for key in list(self.pending):
            self._end(key, self.last_error.get(key, default))

    def result(self) -> dict[K, V]:
        """The values in the order of the keys; raises as the room's story says."""
        if self.failed and len(self.asked) == 1:
            raise next(iter(self.failed.values()))
        done = {key: self.done[key] for key in self.asked if key in self.done}
        if self.failed:
            raise PartlyFailed(done, self.failed)
        return done

    def _succeeded(self, key: K, value: V) -> None:
        del self.pending[key]
        self.done[key] = value

    def _failed(self, key: K, error: OttlaError) -> bool:
        """Whether the key is to be asked again."""
        if key in self._unanswered and isinstance(error, self.plan.presumed_done_after):
            self._succeeded(key, self.plan.presumed(key, error))
            return False
        if isinstance(error, _MAY_BE_DONE):
            self._unanswered.add(key)
        if error.retriable and not isinstance(error, self.plan.final):
            self.last_error[key] = error
            return True
        self._end(key, error)
        return False

    def _end(self, key: K, error: OttlaError) -> None:
        del self.pending[key]
        self.failed[key] = error


# --- what most answers have in common ---------------------------------------------------------------------------------


def error_of(answer: Any) -> OttlaError | None:
    """The error in a part of an answer that has error_code; without an error_message it says what it is about."""
    if answer.error_code == 0:
        return None
    about = getattr(answer, "name", None) or getattr(answer, "group_id", None)
    return broker_error(answer.error_code, getattr(answer, "error_message", None) or about)


def raise_error_of(answer: Any) -> None:
    """Raise the error that a whole answer carries."""
    if (error := error_of(answer)) is not None:
        raise error


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions gathered by topic, as most requests want them."""
    gathered: dict[str, list[int]] = {}
    for topic, partition in partitions:
        gathered.setdefault(topic, []).append(partition)
    return gathered
