"""The errors of brokers as kafka-python and aiokafka show them: a class for each code, with errno and message.

Names are those of our own classes with "Error" behind them, except where a library has another; what may be tried
again is the same for all clients, except where a library says otherwise. Tests compare both with the libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ottla.errors import ERRORS, BrokerError

ErrorClass = type[Any]


def broker_errors(
    names: Mapping[int, str],
    bases: Callable[[type[BrokerError], int], tuple[ErrorClass, ...]],
    module: str,
    *,
    up_to: int = 32_767,
    without: Collection[int] = (),
    messages: Mapping[int, str] | None = None,
    facts: Callable[[type[BrokerError], int], dict[str, Any]] = lambda error, code: {},
) -> dict[str, ErrorClass]:
    """Classes by their names: `bases` and `facts` (attributes) are chosen for each code."""
    found = {}
    for code, error in ERRORS.items():
        if error is None or code > up_to or code in without:
            continue
        name = names.get(code, f"{error.__name__}Error")
        values = {
            "errno": code,
            "message": (messages or {}).get(code, error.name),
            "description": error.what,
            "__module__": module,
            "__doc__": error.what,
            **facts(error, code),
        }
        found[name] = type(name, bases(error, code), values)
    return found
