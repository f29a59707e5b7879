"""A mapping that never changes: a change gives another one, and the two share nearly everything.

1. `put` and `without` copy one bucket of about n/256 entries and the row of 256 buckets, so they cost about a
   microsecond at 10,000 entries, where copying one dictionary costs thirty (measured), and they leave the old map as
   it was for those who still read it. Nobody who holds a map needs a lock.
2. Walking it gives the keys in order, so that nothing that is decided from a map depends on Python's hash seed.
3. It compares by content.

A tree (as in the books on persistent maps) would share more and need three times the code; two levels are enough for
the few hundred thousand entries a cluster has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

BUCKETS: Final = 256
_MASK: Final = BUCKETS - 1
_EMPTY: Final[dict[Any, Any]] = {}
_NO_ENTRIES: Final = (_EMPTY,) * BUCKETS
_ABSENT: Final[Any] = object()


class SharedMap(Mapping[K, V], Generic[K, V]):
    """See above. `order` returns what keys are sorted by when they do not sort by themselves."""

    __slots__ = ("_buckets", "_order", "_size")

    def __init__(self, entries: Iterable[tuple[K, V]] = (), *, order: Callable[[K], Any] | None = None) -> None:
        self._buckets: tuple[dict[K, V], ...] = _NO_ENTRIES
        self._order = order
        self._size = 0
        self._fill(entries)

    def _fill(self, entries: Iterable[tuple[K, V]]) -> None:
        buckets: dict[int, dict[K, V]] = {}
        for key, value in entries:
            buckets.setdefault(hash(key) & _MASK, {})[key] = value
        self._buckets = tuple(buckets.get(number, _EMPTY) for number in range(BUCKETS)) if buckets else _NO_ENTRIES
        self._size = sum(map(len, buckets.values()))

    def __getitem__(self, key: K) -> V:
        return self._buckets[hash(key) & _MASK][key]

    def get(self, key: K, default: Any = None) -> Any:  # the mixin pays for an exception
        return self._buckets[hash(key) & _MASK].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[hash(key) & _MASK]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        if not self._size:
            return iter(())  # as most maps of a small cluster are, and the buckets are many
        keys = [key for bucket in self._buckets for key in bucket]
        keys.sort(key=self._order)  # type: ignore[arg-type]  # keys sort by themselves when no order is given
        return iter(keys)

    def put(self, key: K, value: V) -> SharedMap[K, V]:
        """A map with that entry besides the others, or instead of the one with its key."""
        bucket = self._bucket_of(key).copy()
        bucket[key] = value
        return self._with(key, bucket)

    def without(self, key: K) -> SharedMap[K, V]:
        """A map without that key; this one when it has no such key."""
        if key not in self:
            return self
        bucket = self._bucket_of(key).copy()
        del bucket[key]
        return self._with(key, bucket)

    def differences(self, before: SharedMap[K, V]) -> Iterator[K]:
        """The keys whose entries are not the same in both, in no order. Of maps that share nearly everything it costs
        as little as they differ."""
        for new, old in zip(self._buckets, before._buckets, strict=True):
            if new is not old:
                yield from (key for key in {*old, *new} if new.get(key, _ABSENT) != old.get(key, _ABSENT))

    def _bucket_of(self, key: K) -> dict[K, V]:
        return self._buckets[hash(key) & _MASK]

    def _with(self, key: K, bucket: dict[K, V]) -> SharedMap[K, V]:
        number = hash(key) & _MASK
        other: SharedMap[K, V] = SharedMap.__new__(SharedMap)
        other._order = self._order
        other._size = self._size + len(bucket) - len(self._buckets[number])
        other._buckets = (*self._buckets[:number], bucket, *self._buckets[number + 1 :])
        return other

    def __repr__(self) -> str:
        return f"SharedMap of {self._size}"
