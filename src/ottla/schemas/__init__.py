"""Schemas of records: what they look like, how a record names its own, and whether one can read what another wrote."""
