"""Names that are loaded when somebody first uses them, whichever thread that is.

Two threads that load rooms at the same time could each meet a module of which the other has loaded only a part; so one
loads at a time.
"""

from __future__ import annotations

from _thread import RLock
from typing import Any, Final

_loading: Final = RLock()


def load(module: str, name: str | None = None) -> Any:
    """A module, or something of it."""
    from importlib import import_module

    with _loading:
        loaded = import_module(module)
        return loaded if name is None else getattr(loaded, name)
