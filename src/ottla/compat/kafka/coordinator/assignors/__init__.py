"""The assignors of kafka-python, by name: partition_assignment_strategy takes the classes, our client does the work."""
