"""What is rare is walked, what comes often is compiled, and nobody can tell by the result."""

import pytest

from ottla.errors import MalformedMessage, Unwritable
from ottla.protocol import compiled, first_uses, schema
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.schema import Int32, Message, String, since


class Rare(Message, versions="0-1", flexible=1):
    number: Int32
    names: list[String] = since(1, factory=list)


@pytest.fixture(autouse=True)
def unused(monkeypatch):
    """As in a new process."""
    for module, name in ((first_uses, "_reads"), (first_uses, "_writes")):
        monkeypatch.setattr(module, name, {})
    for name in ("_DECODERS", "_ENCODERS"):
        monkeypatch.setattr(compiled, name, {})


def test_the_first_uses_are_walked_and_later_ones_compiled_with_the_same_result():
    message = Rare(number=7, names=["a", "b"])
    for number in range(first_uses.OFTEN + 2):
        written = b"".join(first_uses.encode(message, 1))
        assert first_uses.decode_prefix(Rare, 1, b"x" + written, 1) == (message, 1 + len(written))
        is_often = number >= first_uses.OFTEN
        assert ((Rare, 1) in compiled._DECODERS, (Rare, 1) in compiled._ENCODERS) == (is_often, is_often)
    assert (Rare, 0) not in compiled._ENCODERS, "versions are counted one by one"


def test_a_whole_buffer_is_one_message_however_often_it_comes():
    for _ in range(first_uses.OFTEN + 2):
        assert first_uses.decode(Rare, 0, b"\0\0\0\x07") == Rare(number=7)
        with pytest.raises(MalformedMessage, match="1 bytes follow"):
            first_uses.decode(Rare, 0, b"\0\0\0\x07x")


def test_what_is_large_is_compiled_at_once():
    topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(300)]
    written = b"".join(first_uses.encode(MetadataRequest(topics=topics), 8))
    assert (MetadataRequest, 8) in compiled._ENCODERS
    assert first_uses.decode_prefix(MetadataRequest, 8, written)[0].topics == topics
    assert (MetadataRequest, 8) in compiled._DECODERS


def test_errors_are_worded_alike_however_often_they_come():
    said = set()
    for _ in range(first_uses.OFTEN + 2):
        with pytest.raises(Unwritable) as refused:
            first_uses.encode(Rare(number=1, names=["late"]), 0)
        with pytest.raises(MalformedMessage) as malformed:
            first_uses.decode_prefix(Rare, 0, b"\0\0")
        said.add((str(refused.value), str(malformed.value)))
    assert len(said) == 1


@pytest.mark.parametrize("walked", [0, schema.WALKED])
def test_a_struct_is_made_alike_before_and_after_its_constructor_is_written(walked, monkeypatch):
    monkeypatch.setattr(schema, "WALKED", walked)

    class Fresh(Message, versions="0"):
        number: Int32
        names: list[String] = since(0, factory=list)

    made = [Fresh(number=1), Fresh(names=["a"], number=2)]
    assert [(each.number, each.names, each.unknown_tags) for each in made] == [(1, [], None), (2, ["a"], None)]
    assert made[0].names is not Fresh(number=1).names
    for wrong in ({}, {"names": []}, {"number": 1, "nobody": 2}):
        with pytest.raises(TypeError, match="__init__"):
            Fresh(**wrong)
    with pytest.raises(TypeError):
        Fresh(1)  # type: ignore[misc]
