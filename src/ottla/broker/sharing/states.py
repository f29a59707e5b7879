"""The states of a record in a share group, and what a member may say about one.

    AVAILABLE ──acquire──► ACQUIRED ──accept──► ACKNOWLEDGED
        ▲                     │ │
        └── release, expired ─┘ └── reject, gap, delivered too often ──► ARCHIVED

The numbers are Kafka's, in requests and in the log. ACQUIRED is never written: after a crash an acquired record is
available again, with the delivery count it had before.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class RecordState(IntEnum):
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


AVAILABLE: Final = RecordState.AVAILABLE
ACQUIRED: Final = RecordState.ACQUIRED
ACKNOWLEDGED: Final = RecordState.ACKNOWLEDGED
ARCHIVED: Final = RecordState.ARCHIVED
TERMINAL: Final = frozenset({ACKNOWLEDGED, ARCHIVED})

STATE_AFTER: Final = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}
