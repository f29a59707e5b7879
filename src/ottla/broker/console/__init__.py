"""The console: the broker's state as values, as an HTTP API, and as pages that use it (part.py)."""
