"""Drawings of a real log: its batches and index, and the bytes of one batch. Every number was read from the files."""

from __future__ import annotations

import struct
from html import escape
from typing import NamedTuple

from ottla.records import RecordBatch, RecordStream
from ottla.records.layout import HEADER, HEADER_BYTES

WIDTH = 860
FIELDS = (
    "base offset", "length", "leader epoch", "magic", "CRC-32C", "attributes", "last offset delta", "base timestamp",
    "max timestamp", "producer id", "producer epoch", "base sequence", "records",
)  # fmt: skip
STYLE = (
    "<style>text{font:12px monospace;fill:#222}.t{font-size:13px;font-weight:bold}.b{fill:#dbe9f6;stroke:#4a7ba6}"
    ".h{fill:#fbe9c6;stroke:#b08a3e}.r{fill:#dff0d8;stroke:#5d8a4a}.l{stroke:#a33;fill:none}</style>"
)


class Entry(NamedTuple):
    """An entry of an index: an offset, and where its batch begins in the file."""

    offset: int
    position: int


def entries_of(index: bytes, base_offset: int = 0) -> list[Entry]:
    """The entries of an index file; zeros at its end are room for more."""
    pairs = [Entry(base_offset + offset, position) for offset, position in struct.iter_unpack(">ii", index)]
    return [each for each in pairs if each.position > 0]


def pages(segment: bytes, index: bytes) -> dict[str, str]:
    """The drawings, and the page that shows them."""
    batches = [each for each in RecordStream(segment) if isinstance(each, RecordBatch)]
    entries = entries_of(index)
    return {
        "how-it-works/segment.svg": segment_svg(batches, entries),
        "how-it-works/batch.svg": batch_svg(batches[-1], segment),
        "how-it-works/log.md": page(batches, entries, len(segment)),
    }


def page(batches: list[RecordBatch], entries: list[Entry], size: int) -> str:
    records = sum(batch.record_count for batch in batches)
    return f"""\
# A log, as it lies on the disk

These drawings were made from files that a broker wrote a moment before: {records} records in {len(batches)} batches,
{size:,} bytes, and an index with {len(entries)} entries.

## A segment and its index

![A segment with its batches, and the entries of its index](segment.svg)

A partition is a folder, and a segment one file in it, named for its first offset. Batches lie in it back to back,
exactly as the producer sent them: the broker wrote the base offset and the leader epoch into them, and nothing else.
The index has an entry only every `log.index.interval.bytes`; to find an offset, the reader takes the last entry before
it and walks over the batches from there.

## The bytes of a batch

![The fields of the header of one batch, with their values](batch.svg)

The checksum covers everything behind it. Base offset and leader epoch lie before it: that is why they can be written
into the buffer without computing it again. Records are small because they tell differences: offsets and times count
from those of the batch.

How a record gets there, file by file: [the walk of a record](../ARCHITECTURE.md#the-walk-of-a-record). Every file of a
log: [files on disk](../formats.md).
"""


def segment_svg(batches: list[RecordBatch], entries: list[Entry]) -> str:
    """A box for each batch, as wide as it is long, and a line from each entry of the index to its batch."""
    size = sum(batch.size_bytes for batch in batches)
    parts = [_text(10, 20, "00000000000000000000.log", "t"), _text(10, 190, "00000000000000000000.index", "t")]
    left: dict[int, float] = {}
    for batch in batches:
        x, width = 10 + batch.position / size * (WIDTH - 20), batch.size_bytes / size * (WIDTH - 20)
        left[batch.position] = x
        parts.append(_box(x, 35, width, 60, "b"))
        last = batch.next_offset - 1
        offsets = f"{batch.base_offset}" if last == batch.base_offset else f"{batch.base_offset}..{last}"
        parts += [
            _text(x + 5, 55, offsets),
            _text(x + 5, 72, f"{batch.size_bytes} B"),
            _text(x + 5, 88, f"@{batch.position}"),
        ]
    for place, entry in enumerate(entries):
        x = 10 + place * 150
        parts += [_box(x, 205, 140, 30, "h"), _text(x + 6, 224, f"{entry.offset} at {entry.position}")]
        if entry.position in left:
            parts.append(f'<path class="l" d="M{x + 70:.0f} 205 L{left[entry.position] + 4:.0f} 96"/>')
    return _svg(parts, 250)


def batch_svg(batch: RecordBatch, segment: bytes) -> str:
    """A row for each field of the header, and one for the records."""
    header = segment[batch.position : batch.position + HEADER_BYTES]
    values = HEADER.unpack(header)
    sizes = [struct.calcsize(f">{letter}") for letter in "qiibIhiqqqhii"]
    parts, at = [_text(10, 20, f"the batch at {batch.position}", "t")], 0
    for row, (name, value, size) in enumerate(zip(FIELDS, values, sizes, strict=True)):
        y = 35 + row * 22
        shown = f"{value:#010x}" if name == "CRC-32C" else f"{value}"
        parts += [_box(10, y, 840, 20, "h" if at < 21 else "b"), _text(16, y + 14, f"{at:>2}"), _text(50, y + 14, name)]
        parts += [_text(230, y + 14, shown), _text(430, y + 14, header[at : at + size].hex(" "))]
        at += size
    y = 35 + len(FIELDS) * 22
    parts += [_box(10, y, 840, 20, "r"), _text(16, y + 14, f"{at:>2}"), _text(50, y + 14, "records")]
    keys = ", ".join((record.key or b"").decode() for record in batch)
    parts.append(_text(230, y + 14, f"{batch.size_bytes - HEADER_BYTES} bytes: {keys}"[:90]))
    return _svg(parts, y + 35)


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _svg(parts: list[str], height: float) -> str:
    body = "\n".join(parts)
    size = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{STYLE}\n{body}\n</svg>\n'
