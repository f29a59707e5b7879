"""Names that are no settings here though somebody may know them: what to say instead of only "unknown"."""

from __future__ import annotations

from typing import Final

from ottla.errors import UnknownSetting

_TIERED: Final = "records are not moved to remote storage here; remove it"
_GONE: Final = "Kafka 4 has given it up, and so have we; remove it"
_MIGRATION: Final = "a cluster goes over while it is stopped (ottla storage migrate); remove it"

_BY_PREFIX: Final = {
    "remote.": _TIERED,
    "rsm.config.": _TIERED,
    "rlmm.config.": _TIERED,
    "log.local.retention.": _TIERED,
    "zookeeper.metadata.migration.": _MIGRATION,
    "confluent.": "it is a setting of Confluent's server; remove it",
}
_BY_NAME: Final = {
    "follower.fetch.last.tiered.offset.enable": _TIERED,
    "log.message.format.version": _GONE,
    "log.message.downconversion.enable": _GONE,
    "auto.include.jmx.reporter": _GONE,
    "group.coordinator.new.enable": _GONE,
    "eligible.leader.replicas.enable": _GONE,
    "zookeeper.clientCnxnSocket": "it names a Java class; remove it",
    "log.message.timestamp.difference.max.ms": "use log.message.timestamp.before.max.ms and .after.max.ms",
    "host.name": "use listeners",
    "port": "use listeners",
    "advertised.host.name": "use advertised.listeners",
    "advertised.port": "use advertised.listeners",
    "bootstrap.servers": "that is a client's; a broker has listeners",
}


def explain(error: UnknownSetting, key: str) -> UnknownSetting:
    """The error, with a better sentence when the key is known to be something else."""
    reason = _BY_NAME.get(key) or next((why for start, why in _BY_PREFIX.items() if key.startswith(start)), None)
    return error if reason is None else UnknownSetting(f"{key!r}: {reason}")
