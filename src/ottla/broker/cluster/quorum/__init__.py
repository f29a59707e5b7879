"""A controller of a metadata log, for the brokers of a cluster."""
