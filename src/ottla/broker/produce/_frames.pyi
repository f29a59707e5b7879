"""Types of the native twin: those of produce_frames.py."""

from ottla.broker.produce.frames import scan as scan
from ottla.broker.produce.frames import scan_plain_run as scan_plain_run
from ottla.broker.produce.frames import scan_run as scan_run
from ottla.broker.produce.frames import scan_simple as scan_simple
from ottla.broker.produce.frames import write as write
from ottla.broker.produce.frames import write_appended as write_appended
from ottla.broker.produce.frames import write_placed as write_placed
from ottla.broker.produce.frames import write_run as write_run
