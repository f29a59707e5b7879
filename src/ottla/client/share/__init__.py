"""Share consumers (KIP-932): several consumers read the same partitions, each record goes to one of them at a time.

in_flight.py    which records are with us, and what was said of each: the heart, plain
session.py      our half of a share session with one broker: epochs, partitions, plain
requests.py     which request goes to which broker, and what its answer means: plain
membership.py   the member of the group: one heartbeat does everything, plain
records.py      ShareRecord, and how records come out of the bytes of a fetch
core.py         drives them on a loop; share_consumer.py and async_share_consumer.py are its two faces
async_calls.py  what both faces do, of which sync_calls.py is made
async_workers   handlers for as long as they take, of which workers.py is made: tasks (task_hands.py), threads
dead_letters.py records that nobody could handle go to another topic
"""
