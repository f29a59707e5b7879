"""JSON Schema: parsing, the form that is stored, compatibility."""
