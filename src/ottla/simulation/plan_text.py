"""A plan with its faults as text: what a shrunk run is kept and repeated by.

{"seed": 7, "brokers": 3, ..., "loads": ["numbers"], "faults": [[1.5, "kill", 0, 3.2, {}]]}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ottla.simulation.fault import Fault, read_fault
from ottla.simulation.plan import Plan


def plan_text(plan: Plan, faults: Sequence[Fault]) -> str:
    values = {name: getattr(plan, name) for name in Plan.__annotations__}
    return json.dumps({**values, "faults": [json.loads(fault.line()) for fault in faults]}, indent=1)


def read_plan(text: str) -> tuple[Plan, list[Fault]]:
    """The plan and the faults of a text; ValueError when it is none."""
    try:
        values = json.loads(text)
        faults = [read_fault(json.dumps(each)) for each in values.pop("faults")]
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return Plan(**plain), faults
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is not the plan of a run: {error}") from None
