"""Waiting: conditions, deadlines, timers and turns."""
