"""A budget that no schema of a test needs, unless it says so."""

from ottla.budget import Budget


def steps() -> Budget:
    return Budget(1_000_000, "comparing")
