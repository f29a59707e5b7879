"""Histories that many threads write have one order, and are judged as those of the simulation are."""

from __future__ import annotations

import threading
from collections import Counter

from ottla.simulation.checker import check
from ottla.simulation.history import read_history
from ottla.simulation.real.recording import SharedHistory

THREADS, SENDS = 8, 200


def written_by_threads() -> SharedHistory:
    history = SharedHistory()

    def send(client: int) -> None:
        for number in range(SENDS):
            value = client * SENDS + number
            sending = history.invoke(f"client {client}", "send", partition=f"t-{client}", value=value)
            sending.ok(offset=number)

    threads = [threading.Thread(target=send, args=(client,)) for client in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return history


def add_last_read(history: SharedHistory, *, without: int = -1) -> None:
    for client in range(THREADS):
        values = [client * SENDS + number for number in range(SENDS)]
        records = [[f"t-{client}", offset, value] for offset, value in enumerate(values) if value != without]
        history.invoke("reader", "final-poll").ok(records=records)


def test_operations_of_threads_have_numbers_of_their_own() -> None:
    history = written_by_threads()
    counted = Counter((event.number, event.kind) for event in history.events)
    assert len(history.events) == 2 * THREADS * SENDS == len(counted)
    begun: set[int] = set()
    for event in history.events:
        assert (event.number in begun) == (event.kind == "ok")
        begun.add(event.number)


def test_a_whole_history_passes_and_one_that_lacks_a_value_does_not() -> None:
    whole, lacking = written_by_threads(), written_by_threads()
    add_last_read(whole)
    add_last_read(lacking, without=3 * SENDS + 5)
    assert check(read_history(whole.text().splitlines())) == []
    assert [each.name for each in check(lacking.events)] == ["lost-write", "int-poll-skip"]
