"""Records become batches: open batches, their memory, and the futures of their records."""
