"""What the settings of a test's broker are when the test says nothing."""

from ottla.testing import KafkaBroker

DAY_MS = 86_400_000


def test_records_with_timestamps_of_long_ago_stay_while_tests_run():
    with KafkaBroker() as broker:
        assert broker._settings.log_retention_check_interval_ms >= DAY_MS
    with KafkaBroker({"log.retention.check.interval.ms": 100}) as broker:
        assert broker._settings.log_retention_check_interval_ms == 100
