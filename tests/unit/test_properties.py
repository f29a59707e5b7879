"""Settings in files and in the environment: read as Java and the official image read them."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidSetting
from ottla.properties import parse_properties, read_environment, read_properties


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1\nb:2\nc 3\nd\te=f", {"a": "1", "b": "2", "c": "3", "d": "e=f"}),
        ("  # no\n!no\n\n \t\na = 1 ", {"a": "1 "}),
        ("a = b \\\n   c\\\n  d", {"a": "b cd"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("\\\n#a=b", {"#a": "b"}),
        ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
        ("a\\ b\\:c\\=d=e", {"a b:c=d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\u00fc", {"a": "\t\n\r\fqü"}),
        ("a=\\uD83D\\uDE00", {"a": "😀"}),
        ("a=1\ra=2\r\na=3", {"a": "3"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a : = b", {"a": "= b"}),
        ("a=b\\", {"a": "b"}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(text, pairs):
    assert parse_properties(text) == pairs


def test_a_broken_unicode_escape_is_refused():
    with pytest.raises(InvalidSetting, match="four hexadecimal"):
        parse_properties("a=\\u12")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_the_declared_error(text):
    try:
        pairs = parse_properties(text)
    except InvalidSetting:
        return
    assert all(isinstance(part, str) for pair in pairs.items() for part in pair)


ASCII = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20)


@given(st.dictionaries(ASCII, ASCII, max_size=8))
def test_escaped_pairs_come_back(pairs):
    def escaped(text):
        return "".join(f"\\u{ord(character):04x}" for character in text)

    assert parse_properties("\n".join(f"{escaped(key)} = {escaped(value)}" for key, value in pairs.items())) == pairs


def test_a_properties_file_is_latin_1_and_has_a_limit(tmp_path, monkeypatch):
    path = tmp_path / "server.properties"
    path.write_bytes(b"log.dirs=/d\xfc\n")
    assert read_properties(path) == {"log.dirs": "/dü"}
    monkeypatch.setattr("ottla.properties.PROPERTIES_LIMIT_BYTES", 10)
    with pytest.raises(InvalidSetting, match="larger than 10 bytes"):
        read_properties(path)


def test_environment_variables_follow_the_official_image():
    assert read_environment({"KAFKA_LOG_DIRS": "/d", "KAFKA_A__B___C": "1", "PATH": "/bin", "CLUSTER_ID": "x"}) == {
        "log.dirs": "/d",
        "a_b-c": "1",
    }


def test_variables_of_scripts_and_of_kubernetes_are_no_settings():
    noise = [
        *("KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_PORT", "KAFKA_PORT_9092_TCP_ADDR"),
        *("KAFKA_SERVICE_HOST", "KAFKA_SERVICE_PORT", "KAFKA_SERVICE_PORT_CLIENT", "KAFKA_HEADLESS_SERVICE_HOST"),
    ]
    assert read_environment(dict.fromkeys(noise, "x")) == {}
    assert list(read_environment({"KAFKA_SASL_KERBEROS_SERVICE_NAME": "x"})) == ["sasl.kerberos.service.name"]


def test_the_form_of_another_image_is_read_with_a_warning_and_gives_way(caplog):
    with caplog.at_level(logging.WARNING):
        found = read_environment({"KAFKA_CFG_NODE_ID": "1", "KAFKA_NODE_ID": "2", "KAFKA_CFG_LOG_DIRS": "/d"})
    assert found == {"node.id": "2", "log.dirs": "/d"}
    assert "write KAFKA_LOG_DIRS" in caplog.text
    assert read_environment({"KAFKA_NODE_ID": "2", "KAFKA_CFG_NODE_ID": "1"}) == {"node.id": "2"}
