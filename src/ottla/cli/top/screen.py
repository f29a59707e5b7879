"""Figures as the lines of a frame: a function of figures and the size of the terminal.

1. A frame is never wider or longer than the terminal: long names are cut, and of rows that do not fit the last line of
   their table says how many there are.
2. Names from the cluster cannot move the cursor: control characters are escaped.
3. Trouble is on the first line, where it is seen first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.cli.output import aligned, counted, escaped
from ottla.cli.show import shown_duration, shown_size
from ottla.cli.top.figures import BrokerRow, Figures, GroupRow, MetricRow, TopicRow

NAME_COLUMNS: Final = 40
BOLD, RED, PLAIN = "\033[1m", "\033[31m", "\033[0m"
HIDE, SHOW = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l"
"""To a screen of its own without a cursor, and back to the one before as it was."""
START, END_OF_LINE, REST = "\033[H", "\033[K", "\033[J"


def frame(figures: Figures, columns: int, lines: int) -> list[str]:
    """The lines, without colours."""
    head = [_head(figures), ""]
    brokers = aligned(BROKER_HEADINGS, [_broker(row) for row in figures.brokers])
    metrics = aligned(METRIC_HEADINGS, [_metric(row) for row in figures.metrics]) if figures.metrics else []
    topics = aligned(TOPIC_HEADINGS, [_topic(row) for row in figures.topics])
    groups = aligned(GROUP_HEADINGS, [_group(row) for row in figures.groups]) if figures.groups else []
    tables = [table for table in (brokers, metrics, topics, groups) if table]
    foot = ["", figures.left_out] if figures.left_out else []
    room = lines - len(head) - len(foot) - (len(tables) - 1)
    body: list[str] = []
    for table, share in zip(tables, shares([len(each) for each in tables], room), strict=True):
        body += ([""] if body else []) + shortened(table, share)
    return [line[:columns] for line in (*head, *body, *foot)][:lines]


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """So many lines for each: all get what they want if that fits, else the longest ones give way first."""
    found = list(wanted)
    while sum(found) > max(room, 0) and any(found):
        found[found.index(max(found))] -= 1
    return found


def shortened(table: list[str], lines: int) -> list[str]:
    """The first lines of a table, and how many rows there are beyond them."""
    if len(table) <= lines or lines < 2:
        return table[:lines]
    return [*table[: lines - 1], f"... {len(table) - lines + 1} more"]


def painted(lines: Sequence[str], *, is_troubled: bool) -> str:
    """A frame for a terminal: from the top left, each line to its end, and nothing of the frame before."""
    first = f"{RED if is_troubled else BOLD}{lines[0]}{PLAIN}" if lines else ""
    return START + f"{END_OF_LINE}\r\n".join([first, *lines[1:]]) + END_OF_LINE + REST


def is_troubled(figures: Figures) -> bool:
    """Whether something needs somebody."""
    return bool(figures.offline or figures.under_replicated or any(row.failed_directories for row in figures.brokers))


def _head(figures: Figures) -> str:
    trouble = []
    if figures.offline:
        trouble.append(f"{figures.offline} WITHOUT A LEADER")
    if figures.under_replicated:
        trouble.append(f"{figures.under_replicated} under-replicated")
    state = ", ".join(trouble) or "all in sync"
    rates = [row.records_per_s for row in figures.topics if row.records_per_s is not None]
    rate = f", {sum(rates):,.0f} records/s" if rates else ""
    return escaped(
        f"cluster {figures.cluster_id}: {counted(len(figures.brokers), 'broker')},"
        f" {counted(len(figures.topics), 'topic')}, {counted(figures.partitions, 'partition')}{rate}: {state}"
    )


# --- rows ------------------------------------------------------------------------------------------------------------

BROKER_HEADINGS: Final = ("BROKER", "ADDRESS", "CONTROLLER", "LEADS", "REPLICAS", "RECORDS/S", "SIZE", "FAILED DIRS")
METRIC_HEADINGS: Final = ("METRICS OF", "REQUESTS/S", "IN/S", "OUT/S", "CPU", "MEMORY")
TOPIC_HEADINGS: Final = ("TOPIC", "PARTITIONS", "RECORDS/S", "GROWS/S", "SIZE", "UNDER-REPLICATED", "OFFLINE")
GROUP_HEADINGS: Final = ("GROUP", "STATE", "LAG", "READ/S", "UP TO DATE IN")


def _broker(row: BrokerRow) -> tuple[Any, ...]:
    return (
        row.broker, _name(row.address), "yes" if row.is_controller else "", row.leads, row.replicas,
        _rate(row.records_per_s), _size(row.size_bytes), row.failed_directories,
    )  # fmt: skip


def _topic(row: TopicRow) -> tuple[Any, ...]:
    return (
        _name(row.topic), row.partitions, _rate(row.records_per_s), _size(row.bytes_per_s), _size(row.size_bytes),
        row.under_replicated, row.offline,
    )  # fmt: skip


def _group(row: GroupRow) -> tuple[Any, ...]:
    ahead = "" if row.lag == 0 else "never at this rate" if row.behind_s is None else shown_duration(row.behind_s)
    return (
        _name(row.group),
        row.state,
        f"{row.lag:,}",
        _rate(row.read_per_s),
        ahead if row.read_per_s is not None else "",
    )


def _metric(row: MetricRow) -> tuple[Any, ...]:
    cpu = "" if row.cpu_share is None else f"{row.cpu_share:.0%}"
    return (
        _name(row.source), _rate(row.requests_per_s), _size(row.bytes_in_per_s), _size(row.bytes_out_per_s), cpu,
        _size(row.memory_bytes),
    )  # fmt: skip


def _name(text: str) -> str:
    return text if len(text) <= NAME_COLUMNS else f"{text[: NAME_COLUMNS - 3]}..."


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _size(value: float | None) -> str:
    return "" if value is None else shown_size(value)
