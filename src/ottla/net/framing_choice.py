"""How bytes are cut into frames: native where ottla.native says so, in Python otherwise."""

from __future__ import annotations

from ottla.native import is_native

if is_native("ottla.net._framing"):
    from ottla.net._framing import FrameReader
else:
    from ottla.net.framing import FrameReader

__all__ = ["FrameReader"]
