"""A guest of the cluster: producer, consumer and admin.

Each of them is the same three storeys. At the bottom is plain code that decides and never waits: what is known of the
cluster (metadata.py), what to send now (producer/sender.py), what to fetch (consumer/fetcher.py), how to be a member
of a group (consumer/membership/), whom to ask (admin/plans.py). In the middle one network (network.py) carries
requests to nodes and answers back, on one event loop. On top are two faces with the same method names: the asyncio
face runs on the caller's loop, the sync face gives its waiting to a loop of its own in a background thread (loop.py).

The records themselves do not cross threads one by one: a producer's caller writes them into the open batch under a
short lock, a consumer's caller decodes them from the bytes that the loop fetched.
"""
