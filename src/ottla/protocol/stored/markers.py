"""What stands in control records: key and value of a transaction marker.

Both are led by their int16 version.
"""

from ottla.protocol.schema import Int16, Int32, Message


class ControlRecordType(Message, versions="0"):
    type: Int16


class EndTxnMarker(Message, versions="0"):
    coordinator_epoch: Int32
