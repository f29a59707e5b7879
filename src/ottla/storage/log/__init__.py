"""One partition's log: append, read, truncate, flush, recover. Start with partition_log.py."""
