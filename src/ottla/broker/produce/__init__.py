"""Produce behind its handler: frames as flat values, the append, and the wait until records are committed."""
