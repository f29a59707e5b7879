"""Apache's ReplicaVerificationTool: reads every copy of a topic from its broker and compares them."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from tests.patience import HANG_S

REPORTS = 2


def verified(jars: Path, servers: str, topic: str) -> str:
    """What the tool says until it has reported twice; it never ends by itself."""
    options = ["--broker-list", servers, "--topics-include", topic, "--report-interval-ms", "1000", "--time", "-2"]
    command = ["java", "-Xmx256m", "-cp", f"{jars}/*", "org.apache.kafka.tools.ReplicaVerificationTool", *options]
    said = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as tool:
        watchdog = threading.Timer(2 * HANG_S, tool.kill)
        watchdog.start()
        assert tool.stdout is not None
        for line in tool.stdout:
            said += line
            if said.count("max lag is") == REPORTS:
                break
        watchdog.cancel()
        tool.kill()
    return said


def check_verified(jars: Path, servers: str, topic: str) -> None:
    said = verified(jars, servers, topic)
    assert "max lag is 0 for partition" in said, said
    assert "not equal" not in said, said
