"""Kafka's own commands (kafka-topics, kafka-configs, ...) in Python: a file for each; tools.py lists them."""
