"""One segment of a log: its records file, its indexes, and the ordered set of all segments."""
