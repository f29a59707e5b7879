"""What of an answer has to do with access: its errors and the names that can be seen in it, as one line.

    topics[open{0 NONE} shut{0 TOPIC_AUTHORIZATION_FAILED}]

1. Shown are error codes by name, names of resources, numbers of partitions, operations that are allowed. Lists are in
   the order of their texts, so that brokers may have theirs.
2. Of what is only there or not (settings, members, tokens) the line tells that it is there.
3. Numbers that differ from broker to broker (offsets, producer ids, times) are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.errors import name_of_code
from ottla.protocol.access import AclOperation
from ottla.protocol.schema import ZERO_UUID, ArrayOf, StructType

ERRORS = ("error_code", "partition_error_code", "topic_config_error_code")
NAMES = (
    *("name", "topic", "topic_name", "group_id", "transactional_id", "key", "resource_type", "resource_name"),
    *("user", "feature", "partition_index", "partition", "partition_id", "index", "transaction_state"),
)
OPERATIONS = ("authorized_operations", "topic_authorized_operations", "cluster_authorized_operations")
THERE_OR_NOT = ("configs", "members", "tokens", "active_producers", "credential_infos", "values", "acls")
LEFT_OUT = (
    "brokers",
    "node_endpoints",
    "api_keys",
    "supported_features",
    "finalized_features",
    "record_errors",
    "entity",
)
NO_OPERATIONS = -(1 << 31)


def shown(answer: Any, version: int, names_of_ids: Mapping[bytes, str]) -> str:
    return _struct(answer, version, names_of_ids)


def _struct(value: Any, version: int, ids: Mapping[bytes, str]) -> str:
    labels, parts = [], []
    for field in value.fields:
        content = getattr(value, field.name)
        if version not in field.present or field.name in LEFT_OUT:
            continue
        if field.name == "topic_id":
            labels.append(_topic_of(content, ids))
        elif field.name in NAMES:
            labels.append(str(content))
        elif field.name in ERRORS:
            if field.name != "topic_config_error_code" or content:
                parts.append(("configs:" if field.name.startswith("topic_config") else "") + name_of_code(content))
        elif field.name in OPERATIONS:
            parts.append(_operations(content))
        elif field.name == "status_detail":
            parts += ["may not create"] if "Unauthorized to CREATE" in content else []
        elif field.name in THERE_OR_NOT:
            parts += [f"+{field.name}"] if content else []
        elif isinstance(field.type, ArrayOf) and isinstance(field.type.element, StructType) and content:
            parts.append(f"{field.name}[{' '.join(sorted(_struct(each, version, ids) for each in content))}]")
    label = "/".join(dict.fromkeys(filter(None, labels)))
    return label + ("{" + " ".join(parts) + "}" if label and parts else " ".join(parts))


def _topic_of(topic_id: bytes, ids: Mapping[bytes, str]) -> str:
    """The topic that has it, the name out of which building.py made it, or that it is another one."""
    if topic_id == ZERO_UUID:
        return ""
    made_up = bytes(topic_id).rstrip(b"-")
    return ids.get(bytes(topic_id)) or (made_up.decode() + "?" if made_up.isalpha() else "another id")


def _operations(bits: int) -> str:
    if bits == NO_OPERATIONS:
        return "ops:untold"
    return "ops:" + ("+".join(each.name for each in AclOperation if bits & (1 << each)) or "none")
