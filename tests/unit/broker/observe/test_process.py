"""What the system says of the process."""

from ottla.broker.observe.state.process import SERVING, read_process
from ottla.broker.observe.state.readings import Readings


def read(proc):
    out = Readings()
    read_process(out, started_ms=1_500, uptime_ms=250, broker_state=SERVING, proc=proc)
    return {name: series[()] for name, series in out.values.items()}


def test_linux_says_what_is_used(tmp_path):
    (tmp_path / "status").write_text("Name:\tottla\nVmSize:\t  2048 kB\nVmRSS:\t  1024 kB\n")
    (tmp_path / "limits").write_text(
        "Limit                     Soft Limit\nMax open files            1024  4096  files\n"
    )
    (tmp_path / "io").write_text("rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\n")
    (tmp_path / "fd").mkdir()
    (tmp_path / "fd" / "0").touch()
    found = read(tmp_path)
    assert found["process_resident_memory_bytes"] == 1024 * 1024
    assert found["process_virtual_memory_bytes"] == 2048 * 1024
    assert found["process_max_fds"] == 1024
    assert found["process_open_fds"] == 1
    assert found["kafka_server_kafkaserver_linux_disk_write_bytes"] == 8192


def test_what_the_system_does_not_say_is_left_out(tmp_path):
    found = read(tmp_path / "nothing")
    assert "process_open_fds" not in found
    assert found["process_start_time_seconds"] == 1.5
    assert found["kafka_server_kafkaserver_brokerstate"] == 3
    assert found["process_cpu_seconds_total"] > 0
