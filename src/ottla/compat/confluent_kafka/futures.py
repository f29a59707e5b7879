"""Futures of confluent_kafka.admin: one for each thing that was asked for, all from one call of our client."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ottla.client.admin.plans import PartlyFailed
from ottla.compat.confluent_kafka.acls import AclBinding
from ottla.compat.confluent_kafka.admin_values import ConfigResource
from ottla.compat.confluent_kafka.errors import KafkaException, exception_of
from ottla.compat.confluent_kafka.messages import TopicPartition

Future = concurrent.futures.Future
T = TypeVar("T")


class Futures:
    """A few threads that wait for our admin client."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(4, thread_name_prefix="ottla-compat-admin")

    def one(self, call: Callable[[], T]) -> Future[T]:
        """A future of what the call returns."""
        return self._pool.submit(_translated, call)

    def each(
        self, keys: Iterable[Any], call: Callable[[], Any], made: Callable[[Any], Any] = lambda _: None
    ) -> dict[Any, Future[Any]]:
        """A future for each key: `made` of its part of what the call returns by key."""
        futures: dict[Any, Future[Any]] = {key: Future() for key in keys}
        for future in futures.values():
            future.set_running_or_notify_cancel()
        self._pool.submit(_share, futures, call, made)
        return futures

    def close(self) -> None:
        self._pool.shutdown()


def _translated(call: Callable[[], T]) -> T:
    try:
        return call()
    except KafkaException:
        raise
    except Exception as error:
        raise exception_of(error) from None


def _share(futures: dict[Any, Future[Any]], call: Callable[[], Any], made: Callable[[Any], Any]) -> None:
    failed: dict[Any, BaseException] = {}
    found: Any = None
    try:
        found = call()
    except PartlyFailed as error:
        failed, found = dict(error.failed), error.succeeded
    except Exception as error:
        failed = dict.fromkeys(map(_ours, futures), error)
    for key, future in futures.items():
        try:
            if (reason := failed.get(_ours(key), failed.get(key))) is not None:
                raise reason if isinstance(reason, KafkaException) else exception_of(reason)
            future.set_result(made(found.get(key, found.get(_ours(key))) if isinstance(found, dict) else found))
        except Exception as error:
            future.set_exception(error)


def _ours(key: Any) -> Any:
    return key.ours if isinstance(key, ConfigResource | TopicPartition | AclBinding) else key
