"""A schema registry over HTTP: what is asked, what is kept, and what is said when it fails."""

import http.server
import json
import threading
import urllib.error

import pytest

from ottla.spark.formats.schema_registry import (
    CACHE_MAX,
    RegistryFailed,
    SchemaRegistry,
    UnframedRecord,
    UnknownSchema,
    schema_number,
)

USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}


class Answers:
    """Stands for HTTP: answers by path, in turn; remembers what was asked."""

    def __init__(self, **_):
        self.by_path = {}
        self.asked = []
        self.headers = {}

    def add(self, path, schema, **more):
        self.by_path.setdefault(path, []).append(json.dumps({"schema": json.dumps(schema), **more}).encode())

    def fail(self, path, error):
        self.by_path.setdefault(path, []).append(error)

    def __call__(self, url, headers):
        self.headers = headers
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
    return SchemaRegistry(url, fetch=answers, sleep=lambda seconds: None)


def test_a_schema_is_asked_for_once(answers):
    answers.add("/schemas/ids/7", USER)
    made = registry(answers)
    assert made.by_number(7) == made.by_number(7) == USER
    assert answers.asked == ["/schemas/ids/7"]


def test_what_is_kept_is_bounded(answers):
    made = registry(answers)
    for number in range(CACHE_MAX + 1):
        answers.add(f"/schemas/ids/{number}", "string")
        made.by_number(number)
    made.by_number(CACHE_MAX)
    made.by_number(0)
    assert answers.asked[-1] == "/schemas/ids/0"
    assert len(answers.asked) == CACHE_MAX + 2


def test_the_newest_schema_of_a_subject_is_asked_for_every_time(answers):
    answers.add("/subjects/a%2Fb-value/versions/latest", USER)
    made = registry(answers)
    made.latest("a/b-value")
    made.latest("a/b-value")
    assert len(answers.asked) == 2


def test_references_are_written_into_the_schema(answers):
    order = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "by", "type": "people.User"}, {"name": "then", "type": ["null", "people.User"]}],
    }
    references = [{"name": "people.User", "subject": "user", "version": 3}]
    answers.add("/schemas/ids/1", order, references=references)
    answers.add("/subjects/user/versions/3", {**USER, "namespace": "people"})
    found = registry(answers).by_number(1)
    assert found["fields"][0]["type"]["name"] == "people.User"
    assert found["fields"][0]["type"]["fields"] == USER["fields"]
    assert found["fields"][1]["type"] == ["null", "people.User"]


def test_user_and_password_go_with_the_question_and_into_no_error(answers):
    made = registry(answers, "http://ann:s%40cret@registry:8081/base/")
    with pytest.raises(UnknownSchema) as failure:
        made.by_number(1)
    assert answers.headers["Authorization"] == "Basic YW5uOnNAY3JldA=="
    assert answers.asked == ["/base/schemas/ids/1"]
    assert "registry:8081/base/schemas/ids/1 answers 404" in str(failure.value)
    assert "s@cret" not in str(failure.value)
    assert "s%40cret" not in str(failure.value)


def test_failures_that_may_pass_are_tried_again(answers):
    answers.fail("/schemas/ids/1", TimeoutError("slow"))
    answers.fail("/schemas/ids/1", urllib.error.HTTPError("u", 503, "Busy", {}, None))
    answers.add("/schemas/ids/1", USER)
    assert registry(answers).by_number(1) == USER


@pytest.mark.parametrize(
    ("trouble", "asked", "words"),
    [
        (TimeoutError("slow"), 3, "slow"),
        (urllib.error.HTTPError("u", 500, "Broken", {}, None), 3, "500 Broken"),
        (urllib.error.HTTPError("u", 401, "Unauthorized", {}, None), 1, "401 Unauthorized"),
        (b"no json", 3, "http://registry:8081/schemas/ids/1"),
        (b'{"schema": "{"}', 1, "no JSON"),
        (b'{"schema": "x", "schemaType": "PROTOBUF"}', 1, "PROTOBUF, only Avro"),
    ],
)
def test_failures_that_stay_are_told(answers, trouble, asked, words):
    answers.by_path["/schemas/ids/1"] = [trouble]
    with pytest.raises(RegistryFailed, match=words):
        registry(answers).by_number(1)
    assert len(answers.asked) == asked


@pytest.mark.parametrize("url", ["registry:8081", "ftp://registry", "http://"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(RegistryFailed, match="schemaRegistryUrl must be"):
        SchemaRegistry(url)


def test_the_five_bytes_name_the_schema():
    assert schema_number(b"\0\0\0\1\2rest") == 258
    with pytest.raises(UnframedRecord, match="fewer than the 5"):
        schema_number(b"\0\0")
    with pytest.raises(UnframedRecord, match="begins with byte 123"):
        schema_number(b"{json}")


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
        assert made.by_number(5) == "string"
        with pytest.raises(UnknownSchema, match="nothing here"):
            made.by_number(6)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
