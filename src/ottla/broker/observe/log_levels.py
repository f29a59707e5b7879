"""The levels of the broker's logs in Kafka's words, which BROKER_LOGGER settings read and change (KIP-412).

Listed are the logs of Ottla, the audit log (kafka.authorizer.logger) and "root"; a log without a level of its own is
listed with its parent's. Levels last until the broker stops.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ottla.broker.observe.log_lines import AUDIT_LOG
from ottla.cluster.loggers import ROOT, LogLevel

PACKAGE: Final = "ottla"
LEVELS: Final[Mapping[str, int]] = {
    "TRACE": 5,  # of the audit log only
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 1,
}


class LogLevels(Mapping[str, str]):
    """Names of logs and their levels as they are now."""

    def __getitem__(self, name: str) -> str:
        if name not in self._names():
            raise KeyError(name)
        level = _logger(name).getEffectiveLevel()
        return next((word for word, least in LEVELS.items() if level <= least), "OFF")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    @staticmethod
    def _names() -> list[str]:
        known = logging.root.manager.loggerDict
        ours = sorted(name for name in known if name == PACKAGE or name.startswith(f"{PACKAGE}."))
        return [ROOT, AUDIT_LOG, *ours]


def set_levels(levels: Iterable[LogLevel]) -> None:
    for each in levels:
        _logger(each.logger).setLevel(logging.NOTSET if each.level is None else LEVELS[each.level])


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)
