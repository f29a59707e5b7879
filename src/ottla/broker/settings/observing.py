"""What the broker reports about itself, and how it counts against quotas."""

from __future__ import annotations

from ottla.broker.settings.no_effect import METRIC_SAMPLES, QUOTA_CALLBACK, REPORTERS
from ottla.settings import CALLABLE, LIST, LONG, Settings, setting


class ObservingSettings(Settings):
    ottla_log_format = setting(
        "ottla.log.format",
        str,
        default="auto",
        one_of=("auto", "text", "json"),
        doc="How log lines look: text for people, json for programs, auto is text on a terminal and json elsewhere.",
    )
    ottla_log_level = setting(
        "ottla.log.level",
        str,
        default="INFO",
        one_of=("DEBUG", "INFO", "WARNING", "ERROR"),
        doc="Which log lines are written: this level and worse.",
    )
    ottla_tracing_enable = setting(
        "ottla.tracing.enable",
        bool,
        default=False,
        importance="low",
        doc="Whether OpenTelemetry spans are made for batches whose producers trace them; needs ottla[otel].",
    )
    metric_reporters = setting(
        "metric.reporters",
        LIST,
        default=(),
        importance="low",
        dynamic="cluster-wide",
        no_effect=REPORTERS,
        doc="Classes that Kafka reports metrics to; here they are read at the admin listener.",
    )
    metrics_num_samples = setting(
        "metrics.num.samples",
        int,
        default=2,
        at_least=1,
        importance="low",
        no_effect=METRIC_SAMPLES,
        doc="How many samples a rate is made of.",
    )
    metrics_sample_window_ms = setting(
        "metrics.sample.window.ms",
        LONG,
        default=30_000,
        at_least=1,
        unit="ms",
        importance="low",
        no_effect=METRIC_SAMPLES,
        doc="How long one sample of a rate lasts.",
    )
    metrics_recording_level = setting(
        "metrics.recording.level",
        str,
        default="INFO",
        one_of=("INFO", "DEBUG", "TRACE"),
        importance="low",
        no_effect=METRIC_SAMPLES,
        doc="How much is measured: INFO, DEBUG or TRACE.",
    )
    kafka_metrics_reporters = setting(
        "kafka.metrics.reporters",
        LIST,
        default=(),
        importance="low",
        no_effect=REPORTERS,
        doc="Classes of Kafka's older kind that metrics are reported to.",
    )
    kafka_metrics_polling_interval_secs = setting(
        "kafka.metrics.polling.interval.secs",
        int,
        default=10,
        at_least=1,
        unit="seconds",
        importance="low",
        no_effect=REPORTERS,
        doc="How often those older classes are called.",
    )
    telemetry_max_bytes = setting(
        "telemetry.max.bytes",
        int,
        default=1_048_576,
        at_least=1,
        unit="bytes",
        importance="low",
        doc="How large the metrics may be that a client pushes to the broker.",
    )

    # --- quotas ---

    quota_window_num = setting(
        "quota.window.num",
        int,
        default=11,
        at_least=1,
        importance="low",
        doc="How many samples are kept to judge a client's rate.",
    )
    quota_window_size_seconds = setting(
        "quota.window.size.seconds",
        int,
        default=1,
        at_least=1,
        unit="seconds",
        importance="low",
        doc="How long one sample of those lasts that are kept to judge a client's rate.",
    )
    replication_quota_window_num = setting(
        "replication.quota.window.num",
        int,
        default=11,
        at_least=1,
        importance="low",
        doc="How many samples are kept to judge replication.",
    )
    replication_quota_window_size_seconds = setting(
        "replication.quota.window.size.seconds",
        int,
        default=1,
        at_least=1,
        unit="seconds",
        importance="low",
        doc="How long one sample of those lasts that are kept to judge replication.",
    )
    alter_log_dirs_replication_quota_window_num = setting(
        "alter.log.dirs.replication.quota.window.num",
        int,
        default=11,
        at_least=1,
        importance="low",
        doc="How many samples are kept to judge moves between directories.",
    )
    alter_log_dirs_replication_quota_window_size_seconds = setting(
        "alter.log.dirs.replication.quota.window.size.seconds",
        int,
        default=1,
        at_least=1,
        unit="seconds",
        importance="low",
        doc="How long one sample of those lasts that are kept to judge moves between directories.",
    )
    controller_quota_window_num = setting(
        "controller.quota.window.num",
        int,
        default=11,
        at_least=1,
        importance="low",
        doc="How many samples are kept to judge changes of topics.",
    )
    controller_quota_window_size_seconds = setting(
        "controller.quota.window.size.seconds",
        int,
        default=1,
        at_least=1,
        unit="seconds",
        importance="low",
        doc="How long one sample of those lasts that are kept to judge changes of topics.",
    )
    client_quota_callback_class = setting(
        "client.quota.callback.class",
        CALLABLE,
        default=None,
        importance="low",
        names={},
        no_effect=QUOTA_CALLBACK,
        doc="What decides which quota a client has.",
    )
