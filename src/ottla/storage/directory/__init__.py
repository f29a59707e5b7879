"""The log directories of a broker: locks, checkpoints, loading, failures, and the manager of all logs."""
