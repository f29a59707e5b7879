"""Writes the sources of the site into a folder, which is emptied before."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from website import live, pages, pictures, reference


def write(folder: Path) -> int:
    """Everything that the site is built from; returns the number of pages."""
    shutil.rmtree(folder, ignore_errors=True)
    found = {**pages.documents(), **reference.pages()}
    with tempfile.TemporaryDirectory() as scratch:
        seen = live.watched(Path(scratch))
    found["reference/metrics.md"] = reference.metrics_page(seen.metrics)
    found |= pictures.pages(seen.segment, seen.index)
    found["all-pages.md"] = pages.overview(found)
    for name, text in found.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(pages.ROOT / "docs" / "images", folder / "images")
    return len(found)


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]))} pages are in {sys.argv[1]}")
