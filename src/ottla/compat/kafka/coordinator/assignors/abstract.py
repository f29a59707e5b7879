"""What an assignor is called, and how it rebalances. Assignors of a program's own are not possible here."""

from __future__ import annotations

import enum
from typing import ClassVar


class RebalanceProtocol(enum.IntEnum):
    """Whether everything is given back first, or only what moves."""

    EAGER = 0
    COOPERATIVE = 1


class AbstractPartitionAssignor:
    """One way to share partitions."""

    name: ClassVar[str] = ""

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.EAGER]
