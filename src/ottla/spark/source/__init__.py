"""format("ottla") as a source: offsets, limits, ranges, and the tasks that read them."""
