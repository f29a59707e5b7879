"""Metrics as clients push them (KIP-714): the part of OpenTelemetry's protocol that is metrics, read and written.

wire.py knows protobuf's fields, points.py what one number is, reading.py and writing.py the messages.
"""
