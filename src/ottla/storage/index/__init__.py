"""The sparse indexes of a segment, and the index of its aborted transactions."""
