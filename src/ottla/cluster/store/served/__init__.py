"""The truth of a cluster of processes on one machine: one process keeps it, the brokers reach it by a Unix socket.

    wire.py        frames, and values as JSON both ways; pure
    kept.py        Truth (truth.py) whose every step is on the disk, in a log of its own (kept_log.py)
    answers.py     what a call of a member means to the truth; pure
    server.py      the socket: who may connect, how much he may send, sessions that end
    connection.py  a member's end of the socket: one thread, one call at a time, connects again by itself
    store.py       ServedStore, the SharedStore made of these: Member (member.py) over a connection

A session is a connection: a broker that is killed is gone at once. When the process that keeps the truth is killed and
started again, brokers that come back within a grace time have the registration that they had (docs/decisions/0053).
"""
