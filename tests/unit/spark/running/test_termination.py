"""SIGTERM: what is done before it ends the process, and who keeps a handler of his own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from ottla.spark.running.termination import end_in_order_on_sigterm, stop_all


class Executions:
    """Scala's list of SQL executions: one is at work for the first `looks` looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def size(self) -> int:
        return 1

    def apply(self, _: int) -> Any:
        return self

    def completionTime(self) -> Any:  # noqa: N802
        return self

    def isEmpty(self) -> bool:  # noqa: N802
        self.looks -= 1
        return self.looks >= 0


class Session:
    """Remembers what it was asked for; stands for its streams, its context and its Java side too."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.streams = self.sparkContext = self._jsparkSession = self
        self.active = [self]
        self.isActive = True
        self.status = {"message": "Waiting for data to arrive"}
        self.executions = Executions(3)

    def stop(self) -> None:
        self.calls.append("stop")
        self.isActive = False

    def cancelAllJobs(self) -> None:  # noqa: N802
        self.calls.append("cancel")

    def sharedState(self) -> Any:  # noqa: N802
        return self

    def statusStore(self) -> Any:  # noqa: N802
        return self

    def executionsList(self) -> Executions:  # noqa: N802
        return self.executions


@pytest.fixture(autouse=True)
def default_meaning() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def test_streams_are_stopped_jobs_cancelled_and_their_sinks_waited_for():
    session: Any = Session()
    stop_all(session)
    assert session.calls == ["stop", "cancel", "stop"]
    assert session.executions.looks < 0


def test_a_handler_of_the_program_stays():
    def mine(*_: object) -> None:
        pass

    signal.signal(signal.SIGTERM, mine)
    end_in_order_on_sigterm(Session())  # type: ignore[arg-type]
    assert signal.getsignal(signal.SIGTERM) is mine


def test_a_java_that_got_the_signal_too_leaves_one_line_and_no_traceback(monkeypatch, caplog):
    class Gone(Session):
        def cancelAllJobs(self) -> None:  # noqa: N802
            raise Py4JNetworkError("Answer from Java side is empty")

    monkeypatch.setattr("os.kill", lambda pid, number: None)
    unhandled: list[Any] = []
    monkeypatch.setattr("threading.excepthook", unhandled.append)
    end_in_order_on_sigterm(Gone())  # type: ignore[arg-type]
    signal.raise_signal(signal.SIGTERM)
    assert unhandled == []
    assert "Spark ended before it was stopped (Py4JNetworkError)" in caplog.text


def test_the_signal_still_ends_the_process(monkeypatch):
    sent: list[tuple[Any, bool]] = []
    monkeypatch.setattr(
        "os.kill", lambda pid, number: sent.append((number, signal.getsignal(number) is signal.SIG_DFL))
    )
    session: Any = Session()
    end_in_order_on_sigterm(session)
    signal.raise_signal(signal.SIGTERM)
    assert sent == [(signal.SIGTERM, True)]
    assert session.calls[-1] == "stop"
