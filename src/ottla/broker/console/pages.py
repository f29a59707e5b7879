"""The files of the page: one HTML file, one CSS file, plain ES modules; nothing is built and nothing is fetched.

1. The list of files is made once, from the directory; a path that is not in it is not there.
2. Files stand under an address that has the version of all of them in it, so a browser keeps them for good and a page
   that is opened again asks for its HTML only. The HTML names that version, and is asked for with the ETag that the
   browser has: 304 when it is the same.
3. A page that was opened before the broker was replaced by another version asks under the old address. It gets the file
   of today, which nobody keeps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final

from ottla.broker.http.call import Call
from ottla.broker.http.parts import PUBLIC, Handler, HttpError, Reply, Route
from ottla.light_tuples import NamedTuple

STATIC: Final = Path(__file__).parent / "static"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


HTML: Final = "index.html"
FOR_GOOD: Final = "public, max-age=31536000, immutable"
ASK_AGAIN: Final = "no-cache"


class File(NamedTuple):
    """What is served, and how the browser knows that it is the same."""

    content: bytes
    content_type: str
    tag: str


def page_routes(directory: Path = STATIC) -> Iterator[Route]:
    """The page and everything that it loads; they show nothing of the broker, so everybody may read them."""
    found = {
        path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("*")) if path.suffix in TYPES
    }
    contents = {name: path.read_bytes() for name, path in found.items()}
    version = _digest(b"".join(name.encode() + contents[name] for name in contents))[:16]
    contents[HTML] = contents[HTML].replace(b"/static/", f"/static/{version}/".encode())
    files = {
        name: File(contents[name], TYPES[path.suffix], f'"{_digest(contents[name])}"') for name, path in found.items()
    }
    yield Route("GET", "/", _served(files.pop(HTML), ASK_AGAIN), PUBLIC, "The page.")
    for name, file in files.items():
        yield Route("GET", f"/static/{version}/{name}", _served(file, FOR_GOOD), PUBLIC, f"The file {name}.")
    yield Route("GET", "/static/{version}/{file:path}", _of_today(files), PUBLIC, "A file, for a page of before.")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _served(file: File, kept: str) -> Handler:
    headers = {"ETag": file.tag, "Cache-Control": kept}

    async def served(call: Call) -> Reply:
        if file.tag in call.known_tag:
            return Reply(content=b"", status=HTTPStatus.NOT_MODIFIED, content_type=file.content_type, headers=headers)
        return Reply(content=file.content, content_type=file.content_type, headers=headers)

    return served


def _of_today(files: Mapping[str, File]) -> Handler:
    async def served(call: Call) -> Reply:
        file = files.get(call.path["file"])
        if file is None:
            raise HttpError(HTTPStatus.NOT_FOUND, "there is no such file")
        return await _served(file, ASK_AGAIN)(call)

    return served
