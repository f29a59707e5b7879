"""Types of the native twin: those of frames.py."""

from ottla.broker.fetch.frames import scan_asked as scan_asked
from ottla.broker.fetch.frames import scan_fetched as scan_fetched
from ottla.broker.fetch.frames import write_asked as write_asked
from ottla.broker.fetch.frames import write_fetched as write_fetched
