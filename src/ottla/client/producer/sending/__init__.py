"""Batches become requests: what is ready, in which order, numbered how, and what an answer means."""
