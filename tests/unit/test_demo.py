"""What the demo says at its end and while it is at work; the demo itself is run in tests/spark."""

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

from tests.patience import HANG_S

from ottla import demo


def test_whoever_waits_hears_that_it_is_still_at_work(monkeypatch):
    heard = threading.Event()
    said = []
    monkeypatch.setattr(demo, "REMIND_AFTER_S", 0.0)
    monkeypatch.setattr(demo, "say", lambda text: (said.append(text), heard.set()))
    demo.doing("starting Spark")
    with demo.Reminder():
        assert heard.wait(HANG_S)
    assert said[0].endswith("s]    ... still starting Spark")


def test_names_of_java_objects_are_left_out():
    message = "Getting offsets from org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatch@4012a0ec"
    assert demo.readable(message) == "Getting offsets from the topic clicks"
    assert demo.readable("Processing new data") == "Processing new data"


def test_it_ends_with_where_to_look_next(capsys):
    info = SimpleNamespace(admin_address=("127.0.0.1", 4712), http_parts=("console",))
    broker = SimpleNamespace(bootstrap_servers="127.0.0.1:4711", info=info)
    demo.say_next(broker, stays=False)
    assert "ottla broker start" in capsys.readouterr().out
    demo.say_next(broker, stays=True)
    out = capsys.readouterr().out
    assert "export OTTLA_BOOTSTRAP_SERVERS=127.0.0.1:4711" in out
    assert "curl http://127.0.0.1:4712/metrics" in out
    assert "http://127.0.0.1:4712 " in out  # the console


def test_commands_stand_there_as_they_are_typed(tmp_path, monkeypatch):
    (tmp_path / ".venv").mkdir()
    program = tmp_path / ".venv" / "ottla"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert demo.typed_command(program) == ".venv/ottla"
    assert demo.typed_command(Path("/somewhere/else/ottla")) == "/somewhere/else/ottla"
    monkeypatch.setattr(shutil, "which", lambda _: str(program))  # its environment is activated
    assert demo.typed_command(program) == "ottla"
