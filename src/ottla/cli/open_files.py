"""How many files a broker may have open: as many as the system allows without asking for more rights.

A partition takes three descriptors and a connection one, and the limit that shells give programs is 1,024 on many
systems: a few hundred partitions, and the broker could neither open a log nor accept a client. The limit has a soft
half, which any program may raise to the hard half; a JVM does the same when it starts.
"""

from __future__ import annotations

import logging
from typing import Final

log = logging.getLogger(__name__)

ENOUGH: Final = 1 << 20  # some systems say "without limit" and refuse what is really asked for


def raise_limit() -> None:
    """Raise the soft limit to the hard one; where that is refused or unknown, everything stays as it is."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as refused:
        log.warning("at most %d files may be open (ulimit -n), and the system refuses more: %s", soft, refused)
