"""Answers that cannot be given yet: what they wait for, and until when."""
