"""One table and one rule for everything that may be native."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla import native

ROOT = Path(__file__).parents[2]
# The room's file that imports by the rule, and one of its names.
CHOOSING = {
    "ottla.records._native": ("ottla.records.implementation", "BatchBuilder"),
    "ottla.records._checks": ("ottla.records.log_walks", "RecordsWalk"),
    "ottla.records._compaction": ("ottla.records.log_walks", "KeyTable"),
    "ottla.schemas.arrow._avro_columns": ("ottla.schemas.arrow.avro_choice", "AvroColumns"),
    "ottla.schemas.arrow._json_columns": ("ottla.schemas.arrow.json_choice", "JsonColumns"),
    "ottla.schemas.arrow._protobuf_columns": ("ottla.schemas.arrow.protobuf_choice", "ProtobufColumns"),
    "ottla.net._framing": ("ottla.net.framing_choice", "FrameReader"),
    "ottla.net.tls._data_path": ("ottla.net.tls.data_choice", "DataPath"),
    "ottla.storage._reserving": ("ottla.storage.reserving_choice", "reserve"),
    "ottla.broker.produce._frames": ("ottla.broker.produce.choice", "scan"),
    "ottla.broker.fetch._frames": ("ottla.broker.fetch.choice", "scan_asked"),
    "ottla.client.producer.batches._append": ("ottla.client.producer.batches.append_choice", "HotPath"),
    "ottla.client.consumer._records": ("ottla.client.consumer.record_choice", "FetchedRecords"),
}


@pytest.fixture(autouse=True)
def unforced(monkeypatch):
    monkeypatch.delenv(native.VARIABLE, raising=False)


def built(monkeypatch, *leaves):
    monkeypatch.setattr(native, "is_built", lambda leaf: leaf in leaves)


def test_the_table_has_what_setup_builds_and_what_rooms_choose():
    tree = ast.parse((ROOT / "setup.py").read_text("utf-8"))
    (modules,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "NATIVE_MODULES"
    )
    assert set(modules) == set(native.LEAVES) == set(CHOOSING)


def test_a_leaf_is_native_when_it_and_the_codec_were_built(monkeypatch):
    leaf = "ottla.client.consumer._records"
    built(monkeypatch, native.CODEC, leaf)
    assert native.is_native(leaf)
    built(monkeypatch, native.CODEC)
    assert not native.is_native(leaf)
    built(monkeypatch, leaf)
    assert not native.is_native(leaf)


@pytest.mark.parametrize("leaf", native.LEAVES)
def test_the_variable_forces_the_choice_of_every_leaf(monkeypatch, leaf):
    built(monkeypatch)
    monkeypatch.setenv(native.VARIABLE, "native")
    with pytest.raises(ImportError, match="not built here: run"):
        native.is_native(leaf)
    built(monkeypatch, *native.LEAVES)
    assert native.is_native(leaf)
    monkeypatch.setenv(native.VARIABLE, "python")
    assert not native.is_native(leaf)
    monkeypatch.setenv(native.VARIABLE, "fast")
    with pytest.raises(ImportError, match="must be 'native', 'python' or not set"):
        native.is_native(leaf)


def test_a_leaf_that_is_not_in_the_table_is_refused():
    with pytest.raises(LookupError, match="not in the table"):
        native.is_native("ottla.net._secret")


@pytest.mark.parametrize("forced", ["native", "python"])
def test_every_room_takes_what_the_rule_says(forced):
    if forced == "native" and not all(map(native.is_built, native.LEAVES)):
        pytest.skip("not everything is built: that needs a C compiler")
    program = "import importlib\n" + "".join(
        f"print({leaf!r}, getattr(importlib.import_module({module!r}), {name!r}).__module__)\n"
        for leaf, (module, name) in CHOOSING.items()
    )
    environment = {**os.environ, native.VARIABLE: forced}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        leaf, module = line.split()
        assert (module == leaf) is (forced == "native"), line


# -- rooms that are compiled as they stand ---------------------------------------------------------------------------


@pytest.fixture
def rooms(monkeypatch, tmp_path):
    """Two rooms that were compiled a moment ago; `touch` has one of their files be written that much later."""
    monkeypatch.setattr(native, "ROOMS", ("ottla.one", "ottla.two"))
    monkeypatch.setattr(native, "_path_of", lambda module: str(tmp_path / module.partition(".")[2]))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])

    def touch(name, seconds):
        path = tmp_path / name.replace("*", native.EXTENSION_SUFFIXES[0])
        path.write_text("where = 'source'\n")
        os.utime(path, (1_000_000_000 + seconds,) * 2)

    for name, seconds in (("one.py", 0), ("two.py", 0), ("one*", 5), ("two*", 5)):
        touch(name, seconds)
    return touch


def test_rooms_run_as_they_were_compiled(rooms):
    native.choose_rooms()
    assert native.are_compiled()


def test_the_variable_takes_the_sources_of_all_rooms(rooms, monkeypatch):
    monkeypatch.setenv(native.VARIABLE, "python")
    native.choose_rooms()
    assert not native.are_compiled()
    found = [finder.find_spec("ottla.two") for finder in sys.meta_path[:1]]
    assert [spec.origin.endswith("two.py") for spec in found] == [True]
    assert sys.meta_path[0].find_spec("ottla.other") is None


def test_a_source_that_changed_since_has_all_rooms_run_from_their_sources(rooms):
    rooms("two.py", 6)
    native.choose_rooms()
    assert not native.are_compiled()


def test_rooms_of_which_one_is_not_compiled_run_from_their_sources(rooms, tmp_path):
    (tmp_path / f"two{native.EXTENSION_SUFFIXES[0]}").unlink()
    native.choose_rooms()
    assert not native.are_compiled()


def test_where_no_room_is_compiled_nothing_is_done(rooms, tmp_path):
    (tmp_path / f"one{native.EXTENSION_SUFFIXES[0]}").unlink()
    before = [*sys.meta_path]
    native.choose_rooms()
    assert sys.meta_path == before


def test_every_room_is_a_file_of_the_walk_or_below_it():
    assert len(set(native.ROOMS)) == len(native.ROOMS) > 20
    assert [room for room in native.ROOMS if not (ROOT / "src" / f"{room.replace('.', '/')}.py").exists()] == []
