"""The errors of brokers as kafka-python and aiokafka show them: a class for each code, with errno and message.

Names are those of our own classes with "Error" behind them, except where a library has another; what may be tried
again is the same for all clients, except where a library says otherwise. Tests compare both with the libraries.

What our client raises becomes one of these where a library's class ends (`Translation`); ours is the __cause__.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from ottla.client.producer.values import SendFailed
from ottla.errors import ERRORS, BrokerError, OttlaError

ErrorClass = type[Any]
P = ParamSpec("P")
T = TypeVar("T")


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


class Translation:
    """Errors of ours as those of a library. `local` counts first, then the code of a broker, then `rest`; of each the
    first that fits, and `base` when nothing does."""

    def __init__(
        self,
        base: type[BaseException],
        local: Sequence[tuple[type[BaseException], ErrorClass]],
        for_code: Callable[[int], ErrorClass],
        rest: Sequence[tuple[type[BaseException], ErrorClass]],
    ) -> None:
        self._base, self._local, self._for_code, self._rest = base, local, for_code, rest

    def theirs(self, error: BaseException) -> BaseException:
        """An error of our client as the library's; errors of others stay what they are."""
        if isinstance(error, self._base) or not isinstance(error, OttlaError | TimeoutError):
            return error
        if isinstance(error, SendFailed) and error.__cause__ is not None:
            return self.theirs(error.__cause__)
        kind = next((kind for ours, kind in self._local if isinstance(error, ours)), None)
        if kind is None and isinstance(error, BrokerError):
            kind = self._for_code(error.code)
        if kind is None:
            kind = next((kind for ours, kind in self._rest if isinstance(error, ours)), self._base)
        made: BaseException = kind(str(error))
        made.__cause__ = error
        return made

    def translates(self, kind: type[T]) -> type[T]:
        """A class whose public methods raise the library's errors."""
        for name, value in list(vars(kind).items()):
            is_public = not name.startswith("_") or name in ("__init__", "__next__", "__exit__")
            if is_public and inspect.isfunction(value):
                setattr(kind, name, self._awaited(value) if inspect.iscoroutinefunction(value) else self._called(value))
        return kind

    def _called(self, call: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(call)
        def called(*arguments: P.args, **named: P.kwargs) -> T:
            try:
                return call(*arguments, **named)
            except (OttlaError, TimeoutError) as error:
                raise self.theirs(error) from error

        return called

    def _awaited(self, call: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        @functools.wraps(call)
        async def called(*arguments: P.args, **named: P.kwargs) -> T:
            try:
                return await call(*arguments, **named)
            except (OttlaError, TimeoutError) as error:
                raise self.theirs(error) from error

        return called
