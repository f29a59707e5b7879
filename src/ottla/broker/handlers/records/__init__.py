"""Requests about records: write, read, find, delete."""
