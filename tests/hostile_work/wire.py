"""The attacks by Kafka's protocol: for every API those made from its declaration and those that were crafted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from tests.hostile_work.attack import ANSWER_S, Attacked
from tests.hostile_work.crafted_requests import CRAFTED, Crafted
from tests.hostile_work.prefill import OWN, topic_ids
from tests.hostile_work.shapes import generic_requests

from ottla.protocol.api import Api

SAMPLED = 4
"""So many crafted requests of an API are in a short run, spread over its list."""
Attack = tuple[str, Callable[[int], None]]


def wire_attacks(
    attacked: Attacked,
    api: Api,
    *,
    is_long: bool,
    crafted_requests: Mapping[str, Sequence[Crafted] | str] = CRAFTED,
    ids: Sequence[bytes] | None = None,
) -> Iterator[Attack]:
    """`ids` are those of topics, if others than those of prefill.py."""
    ids = topic_ids(attacked) if ids is None else ids
    for user, owner in (("bob", OWN), ("mallory", "other-")) if is_long else (("bob", OWN),):
        for name, frame in generic_requests(api, ids, is_long=is_long, owner=owner):
            crafted = Crafted(name, lambda _, content=frame: [content], user)  # type: ignore[misc]
            yield f"{name} by {user}", partial(_send, attacked, crafted)
    entry = crafted_requests.get(api.name, "")
    requests = [] if isinstance(entry, str) else list(entry)
    if not is_long and len(requests) > SAMPLED:
        requests = requests[:: -(-len(requests) // SAMPLED)]
    for crafted in requests:
        yield f"{api.name}: {crafted.name}", partial(_send, attacked, crafted)


def _send(attacked: Attacked, crafted: Crafted, turn: int) -> None:
    with attacked.wire(crafted.user) as client:
        for frame in crafted.frames(turn):
            client.send(frame)
            if client.receive(ANSWER_S) is None:
                break  # it has closed, or the answer takes longer than anybody waits for the ones behind
