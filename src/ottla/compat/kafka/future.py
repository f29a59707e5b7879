"""kafka.future: a value or an error that comes later, with callbacks."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Generator
from typing import Any, Self

from ottla.compat.kafka.errors import RetriableError

log = logging.getLogger(__name__)


class Future:
    """A value or an error that comes later, with callbacks."""

    error_on_callbacks = False

    def __init__(self) -> None:
        self.is_done = False
        self.value: Any = None
        self.exception: BaseException | None = None
        self._callbacks: list[Callable[[Any], Any]] = []
        self._errbacks: list[Callable[[BaseException], Any]] = []
        self._lock = threading.Lock()

    def succeeded(self) -> bool:
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        return self.is_done and self.exception is not None

    def retriable(self) -> bool:
        return self.is_done and isinstance(self.exception, RetriableError)

    def success(self, value: Any) -> Self:
        with self._lock:
            self.value, self.is_done = value, True
            callbacks, self._callbacks, self._errbacks = self._callbacks, [], []
        for each in callbacks:
            self._call(each, value)
        return self

    def failure(self, e: BaseException | type[BaseException]) -> Self:
        error = e() if isinstance(e, type) else e
        with self._lock:
            self.exception, self.is_done = error, True
            errbacks, self._callbacks, self._errbacks = self._errbacks, [], []
        for each in errbacks:
            self._call(each, error)
        return self

    def add_callback(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Call it with the value behind `args`."""
        call = functools.partial(f, *args, **kwargs)
        with self._lock:
            if not self.is_done:
                self._callbacks.append(call)
                return self
        if self.exception is None:
            self._call(call, self.value)
        return self

    def add_errback(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Call it with the error behind `args`."""
        call = functools.partial(f, *args, **kwargs)
        with self._lock:
            if not self.is_done:
                self._errbacks.append(call)
                return self
        if self.exception is not None:
            self._call(call, self.exception)
        return self

    def add_both(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        self.add_callback(f, *args, **kwargs)
        return self.add_errback(f, *args, **kwargs)

    def chain(self, future: Future) -> Self:
        self.add_callback(future.success)
        return self.add_errback(future.failure)

    def _call(self, call: Callable[[Any], Any], what: Any) -> None:
        try:
            call(what)
        except Exception:
            log.exception("Error processing callback")
            if self.error_on_callbacks:
                raise

    def __await__(self) -> Generator[Self, None, Any]:
        if not self.is_done:
            yield self
        if self.exception is not None:
            raise self.exception
        return self.value
