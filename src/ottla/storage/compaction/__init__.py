"""The cleaner: keeps the last value of every key, segment by segment. Start with cleaner.py."""
