"""The files of the page: one HTML file, one CSS file, plain ES modules; nothing is built and nothing is fetched.

1. The list of files is made once, from the directory; a path that is not in it is not there.
2. A file may be kept by the browser for as long as its content is the same: it asks with the ETag that it has, and is
   answered 304.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Final

from ottla.broker.http.call import Call
from ottla.broker.http.parts import PUBLIC, Handler, Reply, Route

STATIC: Final = Path(__file__).parent / "static"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_routes(directory: Path = STATIC) -> Iterator[Route]:
    """The page and everything that it loads; they show nothing of the broker, so everybody may read them."""
    for path in sorted(directory.rglob("*")):
        if path.suffix in TYPES:
            name = path.relative_to(directory).as_posix()
            url = "/" if name == "index.html" else f"/static/{name}"
            yield Route("GET", url, _file(path.read_bytes(), TYPES[path.suffix]), PUBLIC, f"The file {name}.")


def _file(content: bytes, content_type: str) -> Handler:
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'

    async def served(call: Call) -> Reply:
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if tag in call.known_tag:
            return Reply(content=b"", status=HTTPStatus.NOT_MODIFIED, content_type=content_type, headers=headers)
        return Reply(content=content, content_type=content_type, headers=headers)

    return served
