"""Where Spark comes from and how it is started: session, Spark's directory, cores, a cluster on this machine."""
