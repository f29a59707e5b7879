"""Sockets to requests, answers to sockets."""
