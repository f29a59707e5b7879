"""`ottla top`: what a cluster does, second by second.

    gathering.py ──► sample.py ──► figures.py ──► screen.py
    asks             one moment    two moments    the lines of a frame

Only `gathering.py` speaks to anybody; figures and frames are functions of values.
"""
