"""The native codec itself, whatever was chosen: twins are compared side by side."""

from __future__ import annotations

import importlib
from types import ModuleType

from ottla.native import CODEC, is_built


def load_native() -> ModuleType | None:
    """None when it was not built here; one that is there but does not load is an error."""
    return importlib.import_module(CODEC) if is_built(CODEC) else None
