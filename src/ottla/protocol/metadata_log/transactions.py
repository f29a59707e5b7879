"""Records about the metadata log itself: transactions of many batches, signs of life, the way here from ZooKeeper.

What stands between a BeginTransactionRecord and its EndTransactionRecord holds at once at the end, or never, when an
AbortTransactionRecord stands there instead.
"""

from ottla.protocol.schema import Int8, Message, String, tagged


class BeginTransactionRecord(Message, versions="0", flexible=0, record_type=23):
    name: String | None = tagged(0, default=None)


class EndTransactionRecord(Message, versions="0", flexible=0, record_type=24):
    """All since the begin holds now."""


class AbortTransactionRecord(Message, versions="0", flexible=0, record_type=25):
    reason: String | None = tagged(0, default=None)


class NoOpRecord(Message, versions="0", flexible=0, record_type=20):
    """Nothing; a controller with nothing to do writes one every 500 ms, so that a log that stands still is noticed."""


class ZkMigrationStateRecord(Message, versions="0", flexible=0, record_type=21):
    """0 none, 1 under way, 2 before it, 3 after it."""

    zk_migration_state: Int8
