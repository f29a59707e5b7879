"""Chooses the walk over records that a log needs: native or its Python twin, by the rule of implementation.py."""

from __future__ import annotations

import os

from ottla.records import checks, record_walk
from ottla.records.implementation import CHOSEN, VARIABLE

check_records = checks.check_records
place_plain_batch = checks.place_plain_batch
RecordsWalk = record_walk.RecordsWalk

if CHOSEN == "native":
    try:
        from ottla.records._checks import RecordsWalk, check_records, place_plain_batch
    except ImportError as error:
        # Forced to be native, or there and not loading: a broken build, not a missing one.
        if os.environ.get(VARIABLE) == "native" or error.name not in ("ottla.records._checks", "ottla.records"):
            raise

__all__ = ["RecordsWalk", "check_records", "place_plain_batch"]
