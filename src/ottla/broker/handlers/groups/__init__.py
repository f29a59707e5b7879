"""Requests of group members and about groups."""
