"""Requests about the cluster itself: what it speaks, its settings, features and quotas."""
