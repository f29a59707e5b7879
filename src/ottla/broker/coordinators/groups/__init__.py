"""Consumer groups and their offsets.

shard.py is the door. Behind it: classic.py, classic_join.py and rebalance.py for the members of classic groups,
committing.py and fetching.py for offsets, expiry.py for what nobody needs any more; group.py says what every kind of
group answers, state.py has the states, records.py the records.
"""
