"""Settings, quotas and credentials: how they share the nodes below /config.

    topics/T, brokers/N, brokers/<default>              settings
    groups/G, client-metrics/S                          settings that Kafka 3.9 does not keep in ZooKeeper
    users/U, clients/C, users/U/clients/C, ips/A        quotas, also with <default> in the place of a name
    users/U                                             SCRAM credentials as well, under the names of their mechanisms

A node is one map of texts: {"version":1,"config":{"retention.ms":"1000"}}. So a change is an edit of that map, and what
somebody else changed is the difference of two maps. Names that we do not know stay as they are.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from ottla.cluster.changes import AlterConfig, Change, SetQuota, SetScramCredential
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ConfigResource, QuotaEntity, ResourceType, ScramCredential, ScramKey
from ottla.cluster.store.zookeeper.paths import DEFAULT, decoded, encoded
from ottla.cluster.store.zookeeper.znodes import DamagedNode, to_json
from ottla.errors import InvalidRequest

Texts = Mapping[str, str]
MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_MECHANISM_NAMES: Final = {number: name for name, number in MECHANISMS.items()}
_WHOLE_NUMBERS: Final = ("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate")
_QUOTAS: Final = (*_WHOLE_NUMBERS, "request_percentage", "controller_mutation_rate")
_SETTINGS: Final = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "groups": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
_FOLDERS: Final = {of: folder for folder, of in _SETTINGS.items()}
_KINDS: Final = {"users": "user", "clients": "client-id", "ips": "ip"}

log = logging.getLogger(__name__)

EntityChange = AlterConfig | SetQuota | SetScramCredential


def config_json(config: Texts) -> bytes:
    return to_json({"version": 1, "config": dict(config)})


def read_config(entity_path: str, data: bytes | None) -> dict[str, str]:
    """The map of an entity; a node without data has none."""
    if not data:
        return {}
    try:
        return {str(name): str(value) for name, value in json.loads(data)["config"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise DamagedNode(f"the settings of {entity_path} make no sense: {problem!r}") from problem


# --- a change as an edit ----------------------------------------------------------------------------------------------


def entity_path(change: EntityChange) -> str:
    """Whose map the change edits."""
    match change:
        case AlterConfig(resource):
            return _resource_path(resource)
        case SetQuota(entity):
            return _quota_path(entity)
        case SetScramCredential(key):
            return f"users/{encoded(key.user)}"


def _resource_path(resource: ConfigResource) -> str:
    folder = _FOLDERS.get(resource.type)
    if folder is None:
        raise InvalidRequest(f"a cluster on ZooKeeper keeps no settings of type {resource.type.name}")
    return f"{folder}/{encoded(resource.name) or DEFAULT}"


def _resource(folder: str, name: str) -> ConfigResource:
    return ConfigResource(_SETTINGS[folder], "" if name == DEFAULT else decoded(name))


def _quota_path(entity: QuotaEntity) -> str:
    names = {kind: DEFAULT if name is None else encoded(name) for kind, name in entity}
    parts = [f"{folder}/{names[kind]}" for folder, kind in _KINDS.items() if kind in names]
    return "/".join(parts)


def edited(config: Texts, change: EntityChange) -> dict[str, str]:
    """The map after the change."""
    after = dict(config)
    for name, text in _edits(change):
        if text is None:
            after.pop(name, None)
        else:
            after[name] = text
    return after


def _edits(change: EntityChange) -> tuple[tuple[str, str | None], ...]:
    match change:
        case AlterConfig(_, values):
            return values
        case SetQuota(_, key, value):
            return ((key, None if value is None else quota_text(key, value)),)
        case SetScramCredential(key, credential):
            return ((_MECHANISM_NAMES[key.mechanism], None if credential is None else credential_text(credential)),)


def quota_text(key: str, value: float) -> str:
    """A quota as Kafka writes it: rates in bytes are whole numbers, the others are Java's doubles."""
    return str(int(value)) if key in _WHOLE_NUMBERS else java_double(value)


def java_double(value: float) -> str:
    """What Java's Double.toString gives for a finite number."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{int(exponent) + len(digits) - 1}"


# --- credentials ------------------------------------------------------------------------------------------------------


def credential_text(credential: ScramCredential) -> str:
    def text(value: bytes) -> str:
        return base64.b64encode(value).decode()

    return (
        f"salt={text(credential.salt)},stored_key={text(credential.stored_key)},"
        f"server_key={text(credential.server_key)},iterations={credential.iterations}"
    )


def read_credential(text: str) -> ScramCredential:
    """The credential; ValueError or KeyError, without the text, when it is none."""
    parts = dict(part.split("=", 1) for part in text.split(","))
    salt, stored, server = (base64.b64decode(parts[name]) for name in ("salt", "stored_key", "server_key"))
    return ScramCredential(int(parts["iterations"]), salt, stored, server)


# --- what an image has, and what somebody else changed ----------------------------------------------------------------


def texts_of(image: ClusterImage, path: str) -> dict[str, str]:
    """The map of an entity as an image has it; what the image does not know is not in it."""
    folder, _, name = path.partition("/")
    if folder in _SETTINGS:
        return dict(image.config(_resource(folder, name)))
    entity = _quota_entity(path)
    texts = {key: quota_text(key, value) for key, value in image.quotas.get(entity, {}).items()}
    if len(entity) == 1 and entity[0][0] == "user" and entity[0][1] is not None:
        for mechanism, number in MECHANISMS.items():
            credential = image.scram_credentials.get(ScramKey(entity[0][1], number))
            texts |= {} if credential is None else {mechanism: credential_text(credential)}
    return texts


def changes_between(path: str, before: Texts, after: Texts) -> list[Change]:
    """The changes that make the one map of an entity out of the other."""
    edits = {name: after.get(name) for name in sorted({*before, *after}) if before.get(name) != after.get(name)}
    folder, _, name = path.partition("/")
    if folder in _SETTINGS:
        return [AlterConfig(_resource(folder, name), tuple(edits.items()))] if edits else []
    changes = [_quota_or_credential(path, key, text) for key, text in edits.items()]
    return [change for change in changes if change is not None]


def _quota_or_credential(path: str, key: str, text: str | None) -> Change | None:
    entity = _quota_entity(path)
    try:
        if key in MECHANISMS and len(entity) == 1:
            user = entity[0][1]
            credential = None if text is None else read_credential(text)
            return None if user is None else SetScramCredential(ScramKey(user, MECHANISMS[key]), credential)
        if key in _QUOTAS:
            return SetQuota(entity, key, None if text is None else float(text))
    except (ValueError, KeyError):
        log.error("the value of %s of %s in ZooKeeper makes no sense; it is passed over", key, path)
    return None


def _quota_entity(path: str) -> QuotaEntity:
    parts = path.split("/")
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return tuple(sorted((_KINDS[folder], None if name == DEFAULT else decoded(name)) for folder, name in pairs))
