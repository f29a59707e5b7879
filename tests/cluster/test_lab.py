"""`ottla lab start`: three brokers that are a quorum, without Java, and a broker that is taken away."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.patience import HANG_S

import ottla


def lines_until(process: subprocess.Popen[str], word: str) -> list[str]:
    assert process.stdout is not None
    found: list[str] = []
    for line in process.stdout:
        found.append(line)
        if word in line:
            return found
    raise AssertionError(f"the lab ended: {found}")


def test_a_lab_goes_on_when_one_of_its_brokers_is_killed_and_finds_its_topics_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla", "lab", "start", "--port", "0", "--data", str(tmp_path / "lab")]
    for number in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lab:
            try:
                told(lab, is_new=not number)
            finally:
                lab.send_signal(signal.SIGTERM)
                lab.communicate(timeout=HANG_S)
        assert lab.returncode == 0


def told(lab: subprocess.Popen[str], *, is_new: bool) -> None:
    said = lines_until(lab, "ready: ")
    servers = said[-1].partition("bootstrap.servers=")[2].strip()
    with ottla.Admin(bootstrap_servers=servers) as admin:
        assert len(admin.describe_cluster(timeout=HANG_S).nodes) == 3
        assert set(admin.list_topics(timeout=HANG_S)) == (set() if is_new else {"clicks"})
        if not is_new:
            return
        os.kill(int(re.findall(r"process (\d+)", said[0])[0]), signal.SIGKILL)
        assert "broker 0 has ended" in lines_until(lab, "broker 0 has ended")[-1]
        end = time.monotonic() + HANG_S
        while len(admin.describe_cluster(timeout=HANG_S).nodes) != 2 and time.monotonic() < end:
            time.sleep(0.1)
        admin.create_topics([ottla.NewTopic("clicks", 3, 2)], timeout=HANG_S)
