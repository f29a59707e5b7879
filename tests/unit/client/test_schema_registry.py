"""A schema registry over HTTP: what is asked, what is kept, and what is said when it fails."""

import http.server
import json
import threading
import urllib.error

import pytest

from ottla.client.schema_registry.registry import CACHE_MAX, RegistryFailed, SchemaNotFound, SchemaRegistry
from ottla.schemas.model import Reference, SchemaText

USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}


class Answers:
    """Stands for HTTP: answers by path, in turn; remembers what was asked."""

    def __init__(self):
        self.by_path = {}
        self.asked = []
        self.headers = {}

    def add(self, path, schema, **more):
        self.by_path.setdefault(path, []).append(json.dumps({"schema": json.dumps(schema), **more}).encode())

    def fail(self, path, error):
        self.by_path.setdefault(path, []).append(error)

    def __call__(self, request):
        self.headers = dict(request.header_items())
        url = request.full_url
        path = "/" + url.split("/", 3)[3]
        self.asked.append(path)
        answers = self.by_path.get(path)
        if not answers:
            raise urllib.error.HTTPError(url, 404, "Not Found", {}, None)
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def answers():
    return Answers()


def registry(answers, url="http://registry:8081"):
    return SchemaRegistry(url, send=answers, sleep=lambda seconds: None)


def test_a_schema_is_asked_for_once(answers):
    answers.add("/schemas/ids/7", USER)
    made = registry(answers)
    assert made.schema(7) == made.schema(7) == SchemaText("AVRO", json.dumps(USER))
    assert answers.asked == ["/schemas/ids/7"]


def test_what_is_kept_is_bounded(answers):
    made = registry(answers)
    for number in range(CACHE_MAX + 1):
        answers.add(f"/schemas/ids/{number}", "string")
        made.schema(number)
    made.schema(CACHE_MAX)
    made.schema(0)
    assert answers.asked[-1] == "/schemas/ids/0"
    assert len(answers.asked) == CACHE_MAX + 2


def test_the_newest_schema_of_a_subject_is_asked_for_every_time(answers):
    answers.add("/subjects/a%2Fb-value/versions/latest", USER, id=4)
    made = registry(answers)
    assert made.latest("a/b-value") == made.latest("a/b-value") == (4, SchemaText("AVRO", json.dumps(USER)))
    assert len(answers.asked) == 2


def test_what_a_schema_refers_to_comes_before_those_that_use_it(answers):
    answers.add("/subjects/user/versions/3", "user", references=[{"name": "Name", "subject": "name", "version": 1}])
    answers.add("/subjects/name/versions/1", "name")
    schema = SchemaText("AVRO", "order", (Reference("User", "user", 3), Reference("Name", "name", 1)))
    assert list(registry(answers).imports(schema).items()) == [("Name", '"name"'), ("User", '"user"')]
    assert answers.asked == ["/subjects/user/versions/3", "/subjects/name/versions/1"]


def test_user_and_password_go_with_the_question_and_into_no_error(answers):
    made = registry(answers, "http://ann:s%40cret@registry:8081/base/")
    with pytest.raises(SchemaNotFound) as failure:
        made.schema(1)
    assert answers.headers["Authorization"] == "Basic YW5uOnNAY3JldA=="
    assert answers.asked == ["/base/schemas/ids/1"]
    assert "registry:8081/base/schemas/ids/1 answers 404" in str(failure.value)
    assert "s@cret" not in str(failure.value)
    assert "s%40cret" not in str(failure.value)


def test_failures_that_may_pass_are_tried_again(answers):
    answers.fail("/schemas/ids/1", TimeoutError("slow"))
    answers.fail("/schemas/ids/1", urllib.error.HTTPError("u", 503, "Busy", {}, None))
    answers.add("/schemas/ids/1", USER)
    assert registry(answers).schema(1).text == json.dumps(USER)


@pytest.mark.parametrize(
    ("trouble", "asked", "words"),
    [
        (TimeoutError("slow"), 3, "slow"),
        (urllib.error.HTTPError("u", 500, "Broken", {}, None), 3, "500: Broken"),
        (urllib.error.HTTPError("u", 401, "Unauthorized", {}, None), 1, "401: Unauthorized"),
        (b"no json", 3, "http://registry:8081/schemas/ids/1"),
        (b"[]", 1, "answers without schema: is it a schema registry"),
        (b'{"hello": "world"}', 1, "answers without schema: is it a schema registry"),
    ],
)
def test_failures_that_stay_are_told(answers, trouble, asked, words):
    answers.by_path["/schemas/ids/1"] = [trouble]
    with pytest.raises(RegistryFailed, match=words):
        registry(answers).schema(1)
    assert len(answers.asked) == asked


@pytest.mark.parametrize("url", ["registry:8081", "ftp://registry", "http://"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ValueError, match="the address of a schema registry is"):
        SchemaRegistry(url)


def test_it_speaks_http():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path == "/schemas/ids/5" and self.headers["Authorization"] == "Basic YTpi"
            body = json.dumps({"schema": '"string"'} if found else {"message": "nothing here"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        made = SchemaRegistry(f"http://a:b@127.0.0.1:{server.server_port}")
        assert made.schema(5) == SchemaText("AVRO", '"string"')
        with pytest.raises(SchemaNotFound, match="nothing here"):
            made.schema(6)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
