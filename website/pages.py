"""The documents of the repository as pages: the same text, with links that hold where they are then.

docs/ is the root of the site; what stands beside docs/ in the repository (ARCHITECTURE.md, CHANGELOG.md ...) moves next
to it. Links to files that are no pages (sources, tests) become their names.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
BESIDE = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
LINK = re.compile(r"(?<!\!)\[([^\]]*)\]\(([^)\s#]+)(#[^)]*)?\)")


def documents() -> dict[str, str]:
    """Path on the site and text of every document."""
    sources = {path.relative_to(ROOT).as_posix(): path for path in sorted((ROOT / "docs").rglob("*.md"))}
    sources |= {name: ROOT / name for name in BESIDE}
    known = {source: source.removeprefix("docs/") for source in sources}
    return {page: relinked(sources[source].read_text("utf-8"), source, known) for source, page in known.items()}


def relinked(text: str, source: str, known: dict[str, str]) -> str:
    """The text of a document with links between pages; code is left as it is."""
    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.lstrip().startswith("```") else _with_links(part, source, known) for part in parts)


def _with_links(text: str, source: str, known: dict[str, str]) -> str:
    def link(found: re.Match[str]) -> str:
        name, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        path = {"README.md": "docs/index.md", "docs/decisions": "docs/decisions/README.md"}.get(path, path)
        if path not in known:
            return name
        here = posixpath.dirname(known[source]) or "."
        return f"[{name}]({posixpath.relpath(known[path], here)}{anchor})"

    return LINK.sub(link, text)


def overview(pages: dict[str, str]) -> str:
    """A page that names every other by its title, so that none is lost that the navigation does not have yet."""
    titles = {
        name: text.removeprefix("# ").partition("\n")[0].strip() for name, text in pages.items() if name.endswith(".md")
    }
    rows = [
        f"- [{title}]({name})" for name, title in sorted(titles.items(), key=lambda item: (item[0].count("/"), item))
    ]
    return "# All pages\n\n" + "\n".join(rows) + "\n"
