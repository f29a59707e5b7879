"""Avro: parsing, the form that is stored, compatibility."""
