"""Types of the native twin: those of framing.py."""

from ottla.net.framing import FrameReader as FrameReader
