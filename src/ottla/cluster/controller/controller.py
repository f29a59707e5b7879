"""decide: an event and what the controller knows give changes, replies and what it knows next.

This file only finds the one who decides; see the package's story for the files.
"""

from __future__ import annotations

from ottla.cluster.controller.events import ControllerEvent
from ottla.cluster.controller.state import ControllerState, Decided


def decide(state: ControllerState, event: ControllerEvent) -> Decided:
    """What follows from the event. Nothing has happened yet when it returns."""
    raise NotImplementedError(type(event).__name__)
