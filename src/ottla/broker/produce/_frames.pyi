"""Types of the native twin: those of frames.py."""

from ottla.broker.produce.frames import scan as scan
from ottla.broker.produce.frames import scan_run as scan_run
from ottla.broker.produce.frames import write as write
from ottla.broker.produce.frames import write_run as write_run
