"""Log directories, syncs and compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.observe.state.readings import Readings

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_MANAGER: Final = "kafka_log_logmanager_"
_MOVES: Final = "kafka_server_replicaalterlogdirsmanager_"
_MOVER: Final = "ReplicaAlterLogDirs"
_CLEANER: Final = "kafka_log_logcleaner_"
_CLEANING: Final = "kafka_log_logcleanermanager_"


def read_disks(broker: Broker, out: Readings, now_ms: float) -> None:
    out.times["kafka_log_logflushstats_logflushrateandtimems"] = [broker.counts.flushes]
    directories = {str(each.path): each.failure is not None for each in broker.replicas.directories}
    out.put(f"{_MANAGER}offlinelogdirectorycount", sum(directories.values()))
    for path, is_offline in directories.items():
        out.put(f"{_MANAGER}logdirectoryoffline", int(is_offline), path)
    _read_moves(broker, out)
    _read_compaction(broker, out, now_ms)
    out.put("ottla_log_verified_bytes_total", broker.counts.verified_bytes)
    out.put("ottla_log_damaged_partitions", len(broker.corruption.found))
    out.put("ottla_log_repaired_segments_total", broker.corruption.repaired_segments)
    out.put("ottla_log_verification_passes_total", broker.counts.verification_passes)


def _read_moves(broker: Broker, out: Readings) -> None:
    moves = broker.__dict__.get("log_dir_moves")  # asking for it would make it
    lags = [] if moves is None else [moves.lag(name) for name, _ in broker.replicas.futures()]
    out.put(f"{_MOVES}maxlag", max(lags, default=0), _MOVER)
    out.put(f"{_MOVES}failedpartitionscount", 0 if moves is None else len(moves.failed), _MOVER)


def _read_compaction(broker: Broker, out: Readings, now_ms: float) -> None:
    counts = broker.counts
    out.put(f"{_CLEANER}cleaner_recopy_percent", round(counts.last_recopy_percent, 3))
    out.put(f"{_CLEANER}max_clean_time_secs", round(counts.last_clean_ms / 1000, 3))
    out.put(f"{_CLEANING}max_dirty_percent", round(100 * counts.max_dirty_ratio, 3))
    looked_ms = now_ms if counts.cleaner_looked_ms is None else counts.cleaner_looked_ms
    out.put(f"{_CLEANING}time_since_last_run_ms", round(now_ms - looked_ms))
    for directory in broker.replicas.directories:
        out.put(f"{_CLEANING}uncleanable_partitions_count", 0, str(directory.path))
        out.put(f"{_CLEANING}uncleanable_bytes", 0, str(directory.path))
    for name in counts.uncleanable:
        partition = broker.replicas.get(name)
        if partition is not None and partition.offline is None:
            path = str(partition.log.directory.parent)
            out.add(f"{_CLEANING}uncleanable_partitions_count", 1, path)
            out.add(f"{_CLEANING}uncleanable_bytes", partition.log.size_bytes, path)
