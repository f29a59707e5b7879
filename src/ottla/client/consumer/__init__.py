"""From subscribe() to records."""
