"""Serializers that register their schemas: a client of a registry, schemas of Python types, Avro, JSON and Protobuf."""
