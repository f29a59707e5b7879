"""The story of a log: what a partition is on the disk, and what is left of it after a crash.

A broker has log directories (log.dirs), best one per disk. Each is locked by `.lock`, says in `meta.properties` whose
it is, and holds one directory per partition, `<topic>-<partition>`, and four small tables of offsets for all of them:

    recovery-point-offset-checkpoint    everything before it was synced; recovery reads only what comes after
    replication-offset-checkpoint       the high watermark
    log-start-offset-checkpoint         where the log begins, when it does not begin with its first segment
    cleaner-offset-checkpoint           up to where compaction has come

`.kafka_cleanshutdown` is there only while the broker is stopped and was stopped in order.

A partition's directory is a row of segments, each named after its first offset, twenty digits long:

    .log            the record batches, exactly as they came over the wire
    .index          sparse: offset -> position in .log
    .timeindex      sparse: largest timestamp so far -> offset
    .txnindex       transactions that were aborted
    .snapshot       what was known of the producers when the segment began
    leader-epoch-checkpoint, partition.metadata     one of each per partition

Only the last segment grows. The others go away whole (retention) or are written again (compaction); a file on its way
in or out wears a suffix: `.cleaned`, `.swap`, `.deleted`.

Five offsets describe a log, and they never change their order:

    log start <= last stable <= high watermark <= log end
                                recovery point <= log end

Readers see from the log start up to the high watermark; those that read committed data only up to the last stable
offset, which is where the oldest open transaction began. Before the recovery point everything is synced.

What survives a crash: every byte before the recovery point, and of what follows the longest row of whole batches whose
checksums are right. All files but `.log` can be made again from it, or only save work. What is promised to a producer
depends on the topic's durability: `durable` acknowledges after the sync, `replicated` when the in-sync set has it.
All bytes go through `files.py`; its twin in `ottla.testing.files` loses everything a real disk may lose.
"""

from ottla.native import choose_rooms

choose_rooms()
