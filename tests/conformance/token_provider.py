"""An identity provider on loopback: a token for a client's id and secret (client credentials grant, RFC 6749 4.4).

    with token_provider(passwords, make_token) as url:
        ...                                             # POST url with Authorization: Basic base64(id:secret)

It is as small as tests need it: no TLS, no scopes, and tokens as JSON with access_token and expires_in.
"""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

POLL_S = 0.01


@contextlib.contextmanager
def token_provider(secrets: Mapping[str, str], make_token: Callable[[str], str], life_s: int) -> Iterator[str]:
    """The address where tokens are made; `secrets` are those of the clients, by their ids."""

    class Provider(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            client_id, _, secret = base64.b64decode(self.headers["Authorization"].split()[1]).decode().partition(":")
            if secrets.get(client_id) == secret:
                self._answer(200, {"access_token": make_token(client_id), "expires_in": life_s, "token_type": "Bearer"})
            else:
                self._answer(401, {"error": "invalid_client"})

        def _answer(self, status: int, fields: Mapping[str, object]) -> None:
            body = json.dumps(fields).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": POLL_S})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
