"""Record values as columns of Arrow, for whoever reads topics as tables: consumers, tables, Spark.

    types        avro_types, json_types, protobuf_types    which column a schema is
    rows         avro_rows, json_rows, protobuf_rows       a column of bytes becomes that column (decoded.py)
    evolution    evolution.py                              what a table needs before a batch fits into it

pyarrow is loaded by this room and by nothing above it before a value is decoded.
"""
