"""A query is stopped when no batch is at work, and always in the end."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.spark.running.stopping import stop_between_batches


class Query:
    """Describes itself by the next message of a list; the last one stays."""

    def __init__(self, *messages: str) -> None:
        self.messages = list(messages)
        self.isActive = True
        self.stopped_at: str | None = None

    @property
    def status(self) -> dict[str, str]:
        if not self.messages:
            raise KeyboardInterrupt
        return {"message": self.messages.pop(0) if len(self.messages) > 1 else self.messages[0]}

    def stop(self) -> None:
        self.stopped_at = self.messages[0] if self.messages else "interrupted"
        self.isActive = False


def stopped(query: Any, limit_s: float = 30) -> str | None:
    stop_between_batches(query, limit_s)
    return query.stopped_at


@pytest.mark.parametrize("rest", ["Waiting for next trigger", "Waiting for data to arrive", "Getting offsets from X"])
def test_the_batch_at_work_is_waited_for(rest):
    assert stopped(Query("Initializing sources", "Processing new data", "Writing offsets to log", rest)) == rest


def test_a_batch_that_does_not_end_is_cut_off():
    assert stopped(Query("Processing new data"), limit_s=0.01) == "Processing new data"


def test_a_query_that_has_ended_is_not_waited_for():
    query = Query("Terminated with exception")
    query.isActive = False
    assert stopped(query) == "Terminated with exception"


def test_a_second_interrupt_cuts_the_batch_off():
    query = Query()
    with pytest.raises(KeyboardInterrupt):
        stopped(query)
    assert query.stopped_at == "interrupted"
