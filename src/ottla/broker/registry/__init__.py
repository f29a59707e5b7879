"""The schema registry: Confluent's REST interface, kept in the topic _schemas (service.py)."""
