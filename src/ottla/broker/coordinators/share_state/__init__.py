"""The share coordinator: keeps how far share groups are in their partitions, in __share_group_state.

state.py        the kept state of one share partition, and what an update does to it
records.py      it as records: snapshots of all of it, updates of what changed
shard.py        initialize, read, write, delete, summary
cutting.py      what of the log nobody needs any more
coordinator.py  the topic, and the log that is cut
"""
