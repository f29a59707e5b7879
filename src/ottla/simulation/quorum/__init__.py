"""Raft alone, in one process and from one seed: voters and observers on disks that tear, in a network that loses.

    invariants.py   what must hold after every event, whatever happened
    node.py         one node: the machine of cluster/raft/raft.py with a disk in memory, which takes its time
    run.py          one schedule: what is appended, and what goes wrong; `python -m ottla.simulation.quorum`

It needs no event loop: an event is a call at a time, and the next one is the earliest.
"""
