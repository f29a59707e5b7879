"""Share groups (KIP-932) on the broker that leads a partition: records are handed out one by one, not partition-wise.

    states.py, ranges.py     which offsets are available, acquired, acknowledged or archived, as ranges
    share_partition.py       one partition as one share group sees it: acquire, acknowledge, expire, what must be kept
    batches.py               what a slice of the log holds: batches, and which of them were aborted
    sessions.py              what a member has asked for before
    acknowledgements.py      is what a member says about records a statement at all
    persister.py             keeps the state with the share coordinator (coordinators/share_state), wherever that is
    leaders.py               the share partitions that are led here: loaded, written, expired, dropped
    fetching.py              one ShareFetch on its way to an answer

The group itself (members, who reads which partition) is with the group coordinator: coordinators/groups/share.
"""
