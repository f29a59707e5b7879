"""Records of the metadata log as JSON, as Apache's tools print them.

    payload: {"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version","featureLevel":30}}
    LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[{"voterId":1}]}

Unlike the log of a broker it shows everything, credentials too: whoever can read the files has them anyway.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.cli.kafka.java_json import java_json
from ottla.cli.kafka.stored_json import as_json
from ottla.errors import OttlaError
from ottla.protocol.metadata_log import decode_record
from ottla.protocol.metadata_log.control import decode_control

CONTROLS: Final = {
    2: "LeaderChange:",
    3: "SnapshotHeader",
    4: "SnapshotFooter",
    5: "KRaftVersion",
    6: "KRaftVoters",
}
"""How Apache's tool introduces the control records of this log."""


def metadata_text(value: bytes | None, offset: int) -> str:
    """A record of the log; one that is not known, or is damaged, is told instead."""
    try:
        record, version = decode_record(value)
    except OttlaError as error:
        return f"Error at {offset}, skipping. {error}"
    return java_json({"type": type_name(type(record)), "version": version, "data": as_json(record, version)})


def type_name(kind: type) -> str:
    """As Kafka's constants are written: NoOpRecord is NO_OP_RECORD."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).upper()


def control_text(number: int, value: bytes | None) -> str:
    """A control record of this log."""
    message = decode_control(number, value)
    return f"{CONTROLS[number]} {java_json(as_json(message, message.version))}"
