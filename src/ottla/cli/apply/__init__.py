"""`ottla apply`: a file says what a cluster should have, and the difference is planned, shown and made.

    reading.py ──► desired.py ──┐
    the file       what it says ├──► plan.py ──► words.py      acting.py
    current.py ─────────────────┘    decides     for people    does it
    what the cluster has

`plan.py` is a function of two values, without a connection; only `current.py` and `acting.py` speak to the cluster.
"""
