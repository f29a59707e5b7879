"""Controllers of a metadata log as a service of the simulation: brokers live under them, by the wire.

    truth.py      the log that a quorum keeps, and who leads it: what is not committed may be lost with its leader
    decisions.py  what the active controller answers and appends, by the functions that decide on an image
    node.py       one controller: a process on a machine of its own, with sockets
    service.py    all of them: who is active, who follows when it is killed

Raft is not simulated here: the nodes share one log, which nothing but `Quorum.elect` makes shorter. What is put to the
test are the brokers: how they follow, register, beat, propose, pass on, stop, and find another controller.
"""
