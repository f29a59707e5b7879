"""Groups and transactions: state machines whose state is the replay of their log.

effects.py says what a shard may ask for, runtime.py carries it out.
"""
