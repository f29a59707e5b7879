"""The progress line: what it says, when it is drawn, and that pipes never see it."""

import io

from ottla.cli.progress import Progress, bar
from ottla.cli.show import shown_bytes, shown_duration, shown_size, shown_time


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_pipe_sees_nothing():
    pipe = io.StringIO()
    with Progress("copy", total=10, stream=pipe) as progress:
        progress.advance(10)
    assert pipe.getvalue() == ""


def test_a_terminal_sees_at_most_ten_lines_a_second_and_none_stays():
    terminal, now_ms = Terminal(), [0.0]
    with Progress("copy", total=1000, stream=terminal, monotonic_ms=lambda: now_ms[0]) as progress:
        for _ in range(1000):
            now_ms[0] += 1
            progress.advance()
    assert terminal.getvalue().count("copy") == 10
    assert terminal.getvalue().endswith("\r\033[K")


def test_the_line_tells_share_rate_and_rest():
    progress = Progress("send", total=200, unit="records", stream=io.StringIO(), monotonic_ms=lambda: 0.0)
    progress.advance(50)
    line = progress.text(now_ms=1000.0)
    assert "25%" in line
    assert "50 records, 50 records/s" in line
    assert "3.0 s left" in line


def test_a_bar_is_filled_in_eighths():
    assert bar(0, cells=4) == "[    ]"
    assert bar(1, cells=4) == "[████]"
    assert bar(0.5 + 1 / 32, cells=4) == "[██▏ ]"


def test_values_are_shown_for_people():
    assert shown_bytes("grüß".encode()) == "grüß"
    assert shown_bytes(b"\xff\x00") == "0xff00"
    assert shown_bytes(b"a" * 200) == "a" * 120 + "... (200 bytes)"
    assert shown_bytes(None) is None
    assert shown_time(0) == "1970-01-01T00:00:00.000Z"
    assert shown_time(-1) is None
    assert shown_time(10**18) == str(10**18)
    assert (shown_size(10), shown_size(1536), shown_size(5 * 1024**5)) == ("10 B", "1.5 KiB", "5120.0 TiB")
    assert (shown_duration(3.21), shown_duration(90), shown_duration(None)) == ("3.2 s", "1.5 min", None)
