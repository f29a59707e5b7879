"""Everything that a power cut may leave of a disk at one moment, one disk after the other.

    for disk in crash_states(files, limit=4_096):
        recover(disk)

1. What may be left is what testing/files.py says: of each directory's unsynced names the first few, of each file's
   unsynced writes any subset, each whole, cut in its middle, or (where the file grew) as zeros; each cut of a file is
   done or not. Garbage in place of bytes is left to the disks that draw (`crash`).
2. Up to `limit` combinations all of them are tried. Beyond it: all subsets of whole changes, if those are few enough,
   else nothing, everything, each change alone, each change missing; then each change torn, and drawn combinations up
   to the limit.
3. No state comes twice. `files` itself is not touched, and what is returned shares nothing with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice, product
from random import Random
from typing import Final, TypeAlias

from ottla.testing.files import MemoryFiles, _Change, _Directory, _Image, _Inode, _Node

Fate: TypeAlias = str | int
Fates: TypeAlias = tuple[Fate, ...]

LOST: Final = "lost"
WHOLE: Final = "whole"
HALF: Final = "half"
ZEROS: Final = "zeros"
TORN: Final = (HALF, ZEROS)


def crash_states(files: MemoryFiles, *, limit: int, seed: int = 0) -> Iterator[MemoryFiles]:
    """See the module."""
    nodes = list(_nodes(files._root, {}))
    slots = [(node, slot) for node in nodes for slot in _slots(node)]
    seen: set[int] = set()
    for fates in _combinations([fates for _, fates in slots], limit, Random(seed)):
        chosen: dict[int, list[Fate]] = {}
        for (node, _), fate in zip(slots, fates, strict=True):
            chosen.setdefault(id(node), []).append(fate)
        root = _left_directory(files._root, chosen)
        key = hash(tuple(_image_of(root, "")))
        if key not in seen:
            seen.add(key)
            yield _disk(root)


def count_states(files: MemoryFiles) -> int:
    """How many combinations there are."""
    return math.prod(len(fates) for node in _nodes(files._root, {}) for fates in _slots(node))


def _nodes(node: _Node, seen: dict[int, None]) -> Iterator[_Node]:
    """All files and directories that anybody sees, or that the disk has, in an order that does not depend on hashes."""
    if id(node) in seen:
        return
    seen[id(node)] = None
    yield node
    if isinstance(node, _Directory):
        moved = [move.node for move in node._pending if move.node is not None]
        for below in chain(node.entries.values(), node._durable.values(), moved):
            yield from _nodes(below, seen)


def _slots(node: _Node) -> Iterator[Fates]:
    """What may become of each unsynced change; a directory has one slot: how many of its moves are kept."""
    if isinstance(node, _Directory):
        if node._pending:
            yield tuple(range(len(node._pending) + 1))
        return
    for position, content in node._pending:
        if content is None or len(content) < 2:
            yield (LOST, WHOLE)
        elif position + len(content) > node._durable.size:
            yield (LOST, WHOLE, HALF, ZEROS)
        else:
            yield (LOST, WHOLE, HALF)


def _combinations(slots: Sequence[Fates], limit: int, random: Random) -> Iterator[Fates]:
    if math.prod(map(len, slots)) <= limit:
        yield from product(*slots)
        return
    subsets = [tuple(fate for fate in fates if fate not in TORN) for fates in slots]
    first = product(*subsets) if math.prod(map(len, subsets)) <= limit else _extremes(slots)
    yield from islice(chain(first, _torn(slots), _drawn(slots, random)), limit)


def _everything(slots: Sequence[Fates]) -> Fates:
    return tuple(WHOLE if WHOLE in fates else fates[-1] for fates in slots)


def _torn(slots: Sequence[Fates]) -> Iterator[Fates]:
    """Everything is there, but one change is torn."""
    everything = _everything(slots)
    for number, fates in enumerate(slots):
        yield from ((*everything[:number], fate, *everything[number + 1 :]) for fate in fates if fate in TORN)


def _extremes(slots: Sequence[Fates]) -> Iterator[Fates]:
    nothing, everything = tuple(fates[0] for fates in slots), _everything(slots)
    yield nothing
    yield everything
    for number in range(len(slots)):
        yield (*everything[:number], nothing[number], *everything[number + 1 :])
        yield (*nothing[:number], everything[number], *nothing[number + 1 :])


def _drawn(slots: Sequence[Fates], random: Random) -> Iterator[Fates]:
    while True:
        yield tuple(random.choice(fates) for fates in slots)


# --- what is left ----------------------------------------------------------------------------------------------------


def _left_directory(directory: _Directory, chosen: dict[int, list[Fate]]) -> _Directory:
    names = dict(directory._durable)
    kept = chosen.get(id(directory), [0])[0]
    for move in islice(directory._pending, int(kept)):
        move.apply(names)
    left = _Directory()
    for name, node in names.items():
        below = _left_directory(node, chosen) if isinstance(node, _Directory) else _left_file(node, chosen)
        left.entries[name] = left._durable[name] = below
    return left


def _left_file(inode: _Inode, chosen: dict[int, list[Fate]]) -> _Inode:
    left = _Inode(inode.modified_ms)
    for image in (left.live, left._durable):
        image.data, image.size = bytearray(inode._durable.data), inode._durable.size
        for change, fate in zip(inode._pending, chosen.get(id(inode), []), strict=True):
            _apply(image, change, fate, inode._durable.size)
    return left


def _apply(image: _Image, change: _Change, fate: Fate, old_size: int) -> None:
    position, content = change
    if fate == WHOLE:
        image.apply(change)
    elif content is not None and fate == HALF:
        image.apply(_Change(position, content[: len(content) // 2]))
    elif content is not None and fate == ZEROS:
        start = min(len(content), max(0, old_size - position))  # room that the disk had given has its old bytes
        image.apply(_Change(position + start, bytes(len(content) - start)))


def _image_of(directory: _Directory, path: str) -> Iterator[tuple[str, bytes, int]]:
    for name, node in sorted(directory.entries.items()):
        if isinstance(node, _Directory):
            yield f"{path}/{name}/", b"", 0
            yield from _image_of(node, f"{path}/{name}")
        else:
            yield f"{path}/{name}", bytes(node.live.data), node.live.size


def _disk(root: _Directory) -> MemoryFiles:
    files = MemoryFiles()
    files._root = root
    return files
