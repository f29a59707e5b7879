"""What the bytes of keys and values become: JSON, Avro, text, and schemas from a registry."""
