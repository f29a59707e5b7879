"""A small HTTP client for tests: one request at a time, JSON in and out, and whatever headers a test wants."""

import http.client
import json
from urllib.parse import quote, urlencode

from tests.patience import HANG_S


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.content = response.read()

    @property
    def value(self):
        return json.loads(self.content)

    def __repr__(self):
        return f"<{self.status} {self.content[:300]!r}>"


class HttpClient:
    """Calls one broker; `log_in` keeps the cookie and sends the token from then on."""

    def __init__(self, broker):
        self.host, self.port = broker.info.admin_address
        self.cookie = self.token = ""

    def ask(self, method, path, body=None, *, query=None, **headers):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=HANG_S)
        sent = {"Content-Type": "application/json"} if method != "GET" else {}
        if self.cookie:
            sent["Cookie"] = self.cookie
        if self.token and method != "GET":
            sent["X-Ottla-Token"] = self.token
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in sent.items() if value is not None}
        content = json.dumps(body).encode() if isinstance(body, dict | list) else body
        if content is None and method in ("POST", "PUT"):
            content = b"{}"
        try:
            target = quote(path, safe="/%") + (f"?{urlencode(query)}" if query else "")
            connection.request(method, target, body=content, headers=sent)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **query):
        return self.ask("GET", path, query=query)

    def post(self, path, body=None, **headers):
        return self.ask("POST", path, body, **headers)

    def log_in(self, user, password):
        answer = self.post("/api/login", {"user": user, "password": password})
        if answer.status == 200:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
            self.token = answer.value["token"]
        return answer

    def begin(self):
        """Where nobody has to log in: learn the token."""
        self.token = self.get("/api/session").value["token"]
        return self
