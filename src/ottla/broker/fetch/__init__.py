"""Fetch behind its handler: sessions, what may be read by whom, and which replica a consumer should ask."""
