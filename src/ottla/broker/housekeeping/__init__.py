"""What a broker does by itself: retention, checkpoints, compaction, and the shared sync of group commit."""
