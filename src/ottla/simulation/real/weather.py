"""Which bytes may pass between whom, and how: decisions without sockets and without a clock.

    passing = Passing()
    passing.block([("broker 1", "broker 2")])       # what broker 1 writes does not arrive at broker 2
    passing.may_pass("broker 1", "broker 2")        # False
    pieces = cut_in_pieces(data, passing.weather_of("broker 1", "clients"), random)     # bytes, each with its delay

1. Ends are named `clients` (all of them together) and `broker N`. Blocks that overlap are counted.
2. A block holds bytes back, as TCP does when packets are lost: nothing is lost inside a connection that lives.
3. The weather of a broker holds for all that it sends and gets; between two brokers it is the sender's, or else the
   receiver's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random
from typing import Final, TypeAlias

from ottla.light_dataclasses import dataclass

CLIENTS: Final = "clients"
Pair: TypeAlias = tuple[str, str]


def broker_name(number: int) -> str:
    return f"broker {number}"


@dataclass(frozen=True, slots=True)
class Weather:
    """What happens to bytes on their way."""

    delay_s: tuple[float, float] = (0.0, 0.0)  # from, to; drawn for every piece
    bytes_per_s: float = 0.0  # 0: no limit
    piece_bytes: int = 0  # in pieces of 1 up to this many bytes; 0 leaves them as they came


FINE: Final = Weather()
WEATHERS: Final = {
    "delayed": Weather(delay_s=(0.020, 0.200)),
    "narrow": Weather(bytes_per_s=100_000.0),
    "pieces": Weather(piece_bytes=61),
}


class Passing:
    """See the module."""

    def __init__(self) -> None:
        self._blocked: Counter[Pair] = Counter()
        self._weather: dict[str, Weather] = {}

    def block(self, pairs: Iterable[Pair]) -> None:
        self._blocked.update(pairs)

    def unblock(self, pairs: Iterable[Pair]) -> None:
        self._blocked.subtract(pairs)

    def set_weather(self, name: str, weather: Weather | None) -> None:
        if weather is None:
            self._weather.pop(name, None)
        else:
            self._weather[name] = weather

    def may_pass(self, sender: str, receiver: str) -> bool:
        return self._blocked[sender, receiver] <= 0

    def weather_of(self, sender: str, receiver: str) -> Weather:
        return self._weather.get(sender) or self._weather.get(receiver) or FINE


def cut_in_pieces(data: bytes, weather: Weather, random: Random) -> Iterator[tuple[bytes, float]]:
    """The bytes in their order, each piece with how long it waits before it passes."""
    position = 0
    while position < len(data):
        size = random.randint(1, weather.piece_bytes) if weather.piece_bytes else len(data)
        piece = data[position : position + size]
        waits_s = random.uniform(*weather.delay_s)
        if weather.bytes_per_s:
            waits_s += len(piece) / weather.bytes_per_s
        yield piece, waits_s
        position += size
