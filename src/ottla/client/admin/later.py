"""Modules of this room that are loaded when somebody first uses one of their names."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType


def loaded_when_used(name: str) -> ModuleType:
    """The module `name` of this room; its code runs at the first look into it."""
    full_name = f"{__package__}.{name}"
    if full_name in sys.modules:
        return sys.modules[full_name]
    spec = importlib.util.find_spec(full_name)
    assert spec is not None, f"{full_name} is a part of this room"
    assert spec.loader is not None, f"{full_name} is a part of this room"
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[full_name] = module
    setattr(sys.modules[__package__], name, module)  # as an import would
    spec.loader.exec_module(module)
    return module
