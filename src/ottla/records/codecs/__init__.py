"""The codecs of record batches, a file each. records/compression.py is their door and loads one on first use."""
