"""Metrics of clients (KIP-714): who is asked for which, what was pushed, and what is kept of it.

subscriptions.py says what a client is asked for, instances.py when it may ask and push, received.py keeps the numbers,
telemetry.py puts them together. Loaded when the first client asks.
"""
