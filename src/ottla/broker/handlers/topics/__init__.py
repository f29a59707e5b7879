"""Requests about topics, their partitions and where these are kept."""
