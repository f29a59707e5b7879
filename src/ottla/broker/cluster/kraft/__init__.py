"""A broker of a cluster that is kept in a metadata log."""
