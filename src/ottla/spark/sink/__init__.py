"""format("ottla") as a sink: rows become records in transactions that the driver ends."""
