"""The installed librdkafka itself, asked through ctypes: its table of properties, and what it says to a value."""

import ctypes
import re
from functools import cache
from pathlib import Path

import confluent_kafka

ROW = re.compile(r"^([a-z][\w.]+) +\| +([CP*]) +\| (.*?) *\| +.*? \| \w+ +\| .*\*Type: (.*?)\*$")
KINDS = {
    "boolean": "bool",
    "integer": "int",
    "float": "float",
    "string": "text",
    "pattern list": "text",
    "enum value": "enum",
    "CSV flags": "flags",
    "see dedicated API": "api",
}


@cache
def library():
    package = Path(confluent_kafka.__path__[0])
    (found,) = package.parent.glob("confluent_kafka.libs/librdkafka-*.so*")
    lib = ctypes.CDLL(str(found))
    lib.rd_kafka_conf_new.restype = ctypes.c_void_p
    lib.rd_kafka_conf_destroy.argtypes = [ctypes.c_void_p]
    text = ctypes.c_char_p
    lib.rd_kafka_conf_set.argtypes = [ctypes.c_void_p, text, text, text, ctypes.c_size_t]
    lib.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    return lib


def table(path):
    """Rows of its own table: name, scope, kind, range."""
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.fclose.argtypes = [ctypes.c_void_p]
    opened = libc.fopen(str(path).encode(), b"w")
    library().rd_kafka_conf_properties_show(opened)
    libc.fclose(opened)
    rows = {}
    for line in Path(path).read_text().splitlines():
        if found := ROW.match(line.rstrip()):
            name, scope, values, kind = found.groups()
            rows.setdefault(name, (scope, KINDS[kind], values.strip()))
    return rows


def refusal(name, value):
    """None when it takes the value, else what it says."""
    lib = library()
    conf, said = lib.rd_kafka_conf_new(), ctypes.create_string_buffer(512)
    code = lib.rd_kafka_conf_set(conf, name.encode(), None if value is None else value.encode(), said, 512)
    lib.rd_kafka_conf_destroy(conf)
    return None if code == 0 else said.value.decode()
