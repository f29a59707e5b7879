"""Which APIs a broker serves: those that have a handler. Nothing else is advertised."""

from __future__ import annotations

import pkgutil
from typing import Final

from ottla.broker import handlers
from ottla.protocol.api import APIS

_MODULES = {module.name for module in pkgutil.iter_modules(handlers.__path__)}

BETWEEN_BROKERS: Final = frozenset({4, 5, 6, 7, 56, 67})
"""LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, AlterPartition, AllocateProducerIds."""

CLUSTER_APIS: Final[frozenset[int]] = frozenset(key for key, api in APIS.items() if api.module in _MODULES)
"""What a member of a cluster serves."""

SERVED_APIS: Final[frozenset[int]] = CLUSTER_APIS - BETWEEN_BROKERS
"""What a broker on its own serves: nobody gives it orders."""
