"""The process: processor time, memory, open files; and the broker's state.

What the system does not tell (/proc is Linux's) is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ottla.broker.observe.state.readings import Readings
from ottla.clock import process_cpu_ms

STARTING: Final = 1
SERVING: Final = 3
STOPPING: Final = 6
_PROC: Final = Path("/proc/self")


def read_process(out: Readings, *, started_ms: int, uptime_ms: float, broker_state: int, proc: Path = _PROC) -> None:
    out.put("kafka_server_kafkaserver_brokerstate", broker_state)
    out.put("ottla_broker_uptime_seconds", round(uptime_ms / 1000, 3))
    out.put("process_start_time_seconds", started_ms / 1000)
    out.put("process_cpu_seconds_total", round(process_cpu_ms() / 1000, 6))
    for name, value in _of_linux(proc):
        out.put(name, value)


def _of_linux(proc: Path) -> Iterator[tuple[str, float]]:
    status, limits = _lines(proc / "status"), _lines(proc / "limits", "  ")
    if "VmRSS" in status:
        yield "process_resident_memory_bytes", int(status["VmRSS"].split()[0]) * 1024
        yield "process_virtual_memory_bytes", int(status["VmSize"].split()[0]) * 1024
    soft = limits.get("Max open files", "").split()
    if soft and soft[0].isdigit():
        yield "process_max_fds", int(soft[0])
    written = _lines(proc / "io")
    if "read_bytes" in written:
        yield "kafka_server_kafkaserver_linux_disk_read_bytes", int(written["read_bytes"])
        yield "kafka_server_kafkaserver_linux_disk_write_bytes", int(written["write_bytes"])
    try:
        yield "process_open_fds", sum(1 for _ in (proc / "fd").iterdir())
    except OSError:
        return


def _lines(path: Path, separator: str = ":") -> Mapping[str, str]:
    """What stands before and behind the first separator of each line; nothing where the file cannot be read."""
    try:
        text = path.read_text()
    except OSError:
        return {}
    return {name: rest.strip() for name, _, rest in (line.partition(separator) for line in text.splitlines())}
