"""Hypothesis profiles, and a header that says what is under test."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "short", max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.register_profile("long", max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("OTTLA_HYPOTHESIS", "short"))


def pytest_report_header() -> str:
    from ottla.records import implementation

    return f"ottla records: {implementation.CHOSEN}; hypothesis profile: {settings.get_current_profile_name()}"
