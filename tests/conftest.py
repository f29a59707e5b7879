"""Hypothesis profiles, Spark's Java for tests, fixtures of all folders, and a header that says what is under test."""

import os

from hypothesis import HealthCheck, settings
from tests.schema_registry import registry_broker, registry_url
from tests.spark.running import spark

__all__ = ["registry_broker", "registry_url", "spark"]  # fixtures of every test

settings.register_profile(
    "short", max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.register_profile("long", max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("OTTLA_HYPOTHESIS", "short"))

# A Java of the tests lives for seconds. What the second compiler and the parallel collector would gain, they never
# earn back: without them the tests with Spark need 40 % less CPU (73 s before, 44 s after, for test_source_stream.py).
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(name, SHORT_LIVED_JAVA)


def pytest_report_header() -> str:
    from ottla.records import implementation

    return f"ottla records: {implementation.CHOSEN}; hypothesis profile: {settings.get_current_profile_name()}"
