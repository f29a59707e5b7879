"""Which APIs this broker serves: those that have a handler. Nothing else is advertised."""

from __future__ import annotations

import pkgutil
from typing import Final

from ottla.broker import handlers
from ottla.protocol.api import APIS

_MODULES = {module.name for module in pkgutil.iter_modules(handlers.__path__)}

SERVED_APIS: Final[frozenset[int]] = frozenset(key for key, api in APIS.items() if api.module in _MODULES)
