"""Questions and orders to a cluster."""
