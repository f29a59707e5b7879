"""Groups and transactions: state machines whose state is what a replay of their log gives.

effects.py says what a shard may ask for, runtime.py carries it out.
"""
