"""Protobuf: .proto text and descriptors, the form that is stored, compatibility."""
