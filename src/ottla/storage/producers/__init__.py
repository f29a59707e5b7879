"""What a log remembers of its producers: who may append what, open transactions, and their snapshots on disk."""
