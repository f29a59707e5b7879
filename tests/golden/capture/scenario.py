"""What the three Python drivers share: the records that are sent, and how a step may fail.

The records are the ones Clients.java sends, so that a batch can be compared across clients: record i has key-i (none
for i = 3), value-i four times (none for i = 4), two headers on the even ones, timestamps one millisecond apart.
"""

import sys
import traceback
from collections.abc import Callable
from typing import NamedTuple

FIRST_TIMESTAMP_MS = 1_700_000_000_000
RECORDS = 5
SECRET = "golden-secret"


class Sample(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int


def sample(i: int) -> Sample:
    headers = [("number", str(i).encode()), ("nothing", None)] if i % 2 == 0 else []
    key = None if i == 3 else f"key-{i}".encode()
    value = None if i == 4 else (f"value-{i} " * 4).encode()
    return Sample(key, value, headers, FIRST_TIMESTAMP_MS + i)


SAMPLES = [sample(i) for i in range(RECORDS)]


def tell(name: str, problem: Exception) -> None:
    print(f"{name}: {type(problem).__name__}: {str(problem)[:160]}")
    if not type(problem).__module__.startswith(("kafka", "aiokafka", "confluent_kafka", "cimpl")):
        traceback.print_exc(limit=-2, file=sys.stdout)  # a mistake in the driver, not an answer of the broker


def step(name: str, call: Callable[[], object]) -> object:
    """Run one step; a refusal is a frame as well, and must not keep the others from being heard."""
    try:
        return call()
    except Exception as problem:
        tell(name, problem)
        return None
