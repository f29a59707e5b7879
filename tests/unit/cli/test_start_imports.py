"""What a start loads: a broker answers soon and a command is light, because code is loaded when it is first needed."""

import os
import re
import subprocess
import sys

from tests.patience import HANG_S

BROKER_MODULES = 315
"""Of ours, up to the first answers. Whoever loads more at the start says why it cannot come later. (The native reader
of frames and the file that chooses it, and answers that leave in the next turn: every connection needs them;
metrics have a file for each kind of thing that is counted; settings of share groups and of tables are settings of the
broker; the walks of a log are no longer among those of a client; what watches the loop
and the threads begins with them; so do loads of coordinators in slices and what tells rot from a torn end. The metadata
log is read before anything else: its records, control records and snapshots are 26 modules;
Raft reads it, with or without other voters.)"""
LIST_MODULES = 56
LATER = (
    "ottla.broker.handlers.records",
    "ottla.broker.housekeeping.compaction",
    "ottla.broker.security.authorizer",
    "ottla.broker.security.login",
    "ottla.cli.secure_start",
    "ottla.cluster.controller",
    "ottla.net.sasl",
    "ottla.net.tls",
    "ottla.storage.compaction.cleaner",
)
"""What a broker on its own, without a lock, does not need to answer."""
LATER_LIBRARIES = ("dataclasses", "uuid", "platform", "decimal", "difflib", "shutil", "cryptography", "crc32c", "lz4")
"""What neither a broker nor a command loads at its start."""


def imported(errors: str) -> list[str]:
    """The modules of ours that `python -X importtime` tells of, without empty packages."""
    return re.findall(r"^import time:[^|]*\|[^|]*\| +(ottla[\w.]*)$", errors, re.MULTILINE)


def test_a_broker_and_a_command_load_little_before_they_answer(tmp_path):
    command = [sys.executable, "-X", "importtime", "-m", "ottla"]
    # A variable of other tests in this process would be looked up as a setting, and then load difflib.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTTLA_", "KAFKA_"))}
    settings = ["--set", "log.cleaner.enable=false", "--set", "ottla.admin.listener="]  # it would load more, but later
    start = [*command, "broker", "start", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *settings]
    said = tmp_path / "imports"
    with (
        said.open("w") as errors,
        subprocess.Popen(start, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as broker,
    ):
        assert broker.stdout is not None
        ready = broker.stdout.readline()
        at = re.search(r"ready at (\S+)", ready)
        broker.terminate() if at is None else None
        asked = [*command, "topic", "list", "--bootstrap", at[1] if at else ""]
        listed = subprocess.run(asked, capture_output=True, text=True, timeout=HANG_S, env=environment)
        broker.terminate()
        broker.communicate(timeout=HANG_S)
    assert at is not None, said.read_text()
    assert listed.returncode == 0, listed.stderr
    for name in LATER_LIBRARIES:
        found = re.search(rf"^import time:.*\| +{name}$", said.read_text() + listed.stderr, re.MULTILINE)
        assert found is None, f"{name} is loaded before it is needed"
    assert not re.search(r"\| +uvloop$", listed.stderr, re.MULTILINE), "asyncio's own loop is enough for a question"
    loaded = imported(said.read_text())
    assert not [each for each in loaded if each.startswith(LATER) and each != "ottla.broker.handlers.records"]
    assert len(loaded) <= BROKER_MODULES, loaded
    assert len(imported(listed.stderr)) <= LIST_MODULES, imported(listed.stderr)
