"""The assignors of aiokafka, by name: partition_assignment_strategy takes the classes, our client does the work."""
