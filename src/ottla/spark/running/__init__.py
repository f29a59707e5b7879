"""Where Spark comes from and how it is started: session, homes, cores, a cluster on this machine."""
