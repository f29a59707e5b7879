"""What a broker serves, and what each handler module declares about its API: once, in the handler.

    DELETE_TOPIC = Need(AclOperation.DELETE, AclResource.TOPIC, Refused.ENTRY)
    SERVES = Served(DeleteRecordsRequest, needs=(DELETE_TOPIC,))

1. What has a handler file and belongs at the listener (protocol/api.py) is served and advertised there, nothing else;
   finding that out costs no import. What belongs at no broker of Kafka 4 is between brokers: its handler file is in
   handlers/between_brokers/, and it is served to brokers only. What controllers answer is in handlers/controllers/;
   an API that they answer as any broker does has no file there.
2. A handler module has SERVES and `handle(broker, request, context)`: a plain function where the answer is there at
   once, an `async` one where it must be awaited. It returns the response, or None where no answer is written.
3. How much one request may ask for is limited before anything is done for it. A decoder makes an object of every entry
   of an array, and an entry may be a single byte on the wire. Kafka has no such limits; we serve everybody from one
   loop:

    entries       of all arrays together. Kafka's controller refuses changes of more than 10,000 records, a commit of
                  more offsets than fit into a megabyte is refused too, and a producer's request is a megabyte in a
                  hundred partitions. Measured: 20,000 entries take at most 0.2 s. WIDE_ENTRIES is for questions that a
                  client of a very large cluster asks at once: 100,000 topics with a partition each are 200,000
                  entries.
    frame_bytes   of the whole frame; judged as soon as its first bytes tell the API. What has no list needs little.
    is_paced      large frames are decoded and answered with pauses (pacing.py), one at a time.
    slices        the same, and handled as several small requests (slicing.py).
"""

from __future__ import annotations

import enum
import pkgutil
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ottla.broker import handlers
from ottla.broker.security.needs import Need
from ottla.light_dataclasses import dataclass
from ottla.protocol.api import APIS, Api, ListenerType
from ottla.protocol.schema import BYTES, ArrayOf, Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.processor import RunAnswers
    from ottla.broker.requests.context import RequestContext
    from ottla.broker.requests.running import Work
    from ottla.broker.requests.slicing import Slices

ENTRIES: Final = 20_000
WIDE_ENTRIES: Final = 250_000
LIST_FRAME_BYTES: Final = 32 * 1024 * 1024
"""Of a request with a list: 100,000 topic names of the longest kind, and more."""
BLOB_FRAME_BYTES: Final = 1024 * 1024
"""Of a request without a list that carries bytes: a token of SaslAuthenticate, telemetry."""
SMALL_FRAME_BYTES: Final = 64 * 1024
"""Of a request that is a header and a few strings, and of what is no request that we know."""
ANY_FRAME_BYTES: Final = 1 << 31
"""No limit but socket.request.max.bytes, which the frame has passed already."""
LARGE_FRAME_BYTES: Final = 8 * 1024
"""A larger frame of a paced API may have thousands of entries."""
APART_FRAME_BYTES: Final = 128 * 1024
"""Decoding a larger frame takes longer than others should wait, and is done in a thread."""

Decode: TypeAlias = Callable[[memoryview, int], tuple[Any, int]]
Encode: TypeAlias = Callable[[Any], list[Any]]


class Quota(enum.Enum):
    """Which quota of its client a request counts against, beside the processor time that every request costs."""

    NONE = "none"
    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    MUTATION = "controller_mutation_rate"


AnswerRun: TypeAlias = "Callable[[Broker, list[memoryview], int, RequestContext], RunAnswers | None]"
"""Has requests handled that came together, from the front on as many as go together, also one that came alone: frames
and where their bodies begin. None where the first must be handled by itself."""


@dataclass(frozen=True)
class Served:
    """Everything that is true of one API in this broker, whoever asks."""

    request: type[Message]
    entries: int = ENTRIES
    frame_bytes: int | None = None  # where the shape of the request does not say it
    is_paced: bool = False
    slices: Slices | None = None
    """How a large request becomes several small ones, where its entries have nothing to do with each other."""
    needs: tuple[Need, ...] = ()
    """What its handler asks about who sent it (security/needs.py)."""
    quota: Quota = Quota.NONE
    exempts: Callable[[Any, int], bool] | None = None
    """Whether a request of that version counts against no quota, where that depends on the request."""
    codec: Callable[[int], tuple[Decode, Encode]] | None = None
    """Reads requests and writes answers of a version, where that is not done by the API's messages."""
    throttled: Callable[[int], Callable[[Any, int], list[Any]]] | None = None
    """Writes answers of a version that say for how long to wait; needed where answers with that field are no
    messages."""
    answer_run: AnswerRun | None = None
    """For requests that came together."""


_CONTROLLERS: Final = f"{handlers.__name__}.controllers."


def _modules() -> tuple[dict[str, str], dict[str, str]]:
    """Where the handler of each API is, by the name of its module: of brokers, and of controllers."""
    found: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for module in pkgutil.walk_packages(handlers.__path__, f"{handlers.__name__}."):
        if not module.ispkg:
            found[module.name.startswith(_CONTROLLERS)][module.name.rpartition(".")[2]] = module.name
    return found[0], {**found[0], **found[1]}


_MODULES, _CONTROLLER_MODULES = _modules()


def served_at(listeners: ListenerType) -> frozenset[int]:
    """The keys of what is served at a listener of one of these kinds."""
    modules = _CONTROLLER_MODULES if listeners is ListenerType.CONTROLLER else _MODULES
    return frozenset(key for key, api in APIS.items() if api.listeners & listeners and api.module in modules)


CLUSTER_APIS: Final = served_at(ListenerType.BROKER | ListenerType.ZK_BROKER)
"""What a broker of a cluster in ZooKeeper serves."""
SERVED_APIS: Final = served_at(ListenerType.BROKER)
"""What any other broker serves."""
BROKER_APIS: Final = CLUSTER_APIS - SERVED_APIS
"""What is served to brokers only."""
CONTROLLER_APIS: Final = served_at(ListenerType.CONTROLLER)
"""What a controller of a metadata log serves."""


def handler_of(api: Api, *, is_controller: bool = False) -> ModuleType:
    """The handler module of an API; loaded when it is first asked for."""
    return import_module((_CONTROLLER_MODULES if is_controller else _MODULES)[api.module])


def answering(broker: Broker, api: Api) -> Callable[..., Message | Work[Message | None] | None]:
    """What answers requests of an API in this broker: its handler, or whoever the link passes them on to."""
    if api.key in broker.link.passed_on:
        return _passed_on
    handle: Callable[..., Message | Work[Message | None] | None]
    handle = handler_of(api, is_controller=broker.link.is_controller).handle
    return handle


async def _passed_on(broker: Broker, request: Message, context: RequestContext) -> Message | None:
    return await broker.link.forward(request, context)


def served(api: Api, *, is_controller: bool = False) -> Served:
    """What its handler declared; what is only ever passed on has none, and the limits that all have."""
    if api.module not in (_CONTROLLER_MODULES if is_controller else _MODULES):
        return Served(api.request, is_paced=True)
    declared: Served = handler_of(api, is_controller=is_controller).SERVES
    return declared


@lru_cache(maxsize=256)  # every large request asks; what nobody knows takes a place, but no more than these
def frame_limit_bytes(api_key: int) -> int:
    """The limit for a frame whose first bytes name this API, of which nobody knows yet whether they are a request."""
    api = APIS.get(api_key)
    if api is None:
        return SMALL_FRAME_BYTES
    declared = served(api).frame_bytes if api_key in CLUSTER_APIS else None
    return _natural_frame_bytes(api.request) if declared is None else declared


def _natural_frame_bytes(request: type[Message]) -> int:
    kinds = [field.type for field in request.fields]
    if any(isinstance(kind, ArrayOf) for kind in kinds):
        return LIST_FRAME_BYTES
    return BLOB_FRAME_BYTES if BYTES in kinds else SMALL_FRAME_BYTES
