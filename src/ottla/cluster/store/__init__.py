"""Where the truth about the cluster is kept.

`interface.py` says what a store promises; `memory.py` keeps nothing and specifies the others; `kraft.py`, the
default, keeps it in Kafka's metadata log beside the topics of a single broker. `history.py` is what local stores have
in common.
"""
