"""Where the truth about the cluster is kept.

`interface.py` says what a store promises; `memory.py` keeps nothing and specifies the others; `embedded.py`, the
default, keeps it in a log beside the topics of a single broker. `history.py` is what local stores have in common,
`frames.py` the bytes.
"""
