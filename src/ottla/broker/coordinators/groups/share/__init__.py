"""Share groups (KIP-932) at the group coordinator: their members, and which partitions each of them reads.

    group.py          the state of a group, and only what records.py can write changes it
    heartbeat.py      join, stay, leave; the group epoch, the assignment and the member follow
    assignor.py       who reads what: a partition may have several readers
    partitions.py     of which partitions the share coordinator has the state, is to begin it, or to forget it
    protocol.py       the door for the shard
    describe.py       ShareGroupDescribe

Which records are whose is not known here: the leaders of the partitions know it (broker/sharing).
"""
