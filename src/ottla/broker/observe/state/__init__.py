"""What is so right now, read when somebody asks for metrics: one file for each part of the broker."""
