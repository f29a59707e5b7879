"""spark.kafka.clusters.*: where a job asks for tokens. Names and defaults are those of Spark's own Kafka connector.

    spark.kafka.clusters.main.auth.bootstrap.servers           where tokens are asked for
    spark.kafka.clusters.main.target.bootstrap.servers.regex   which kafka.bootstrap.servers they are for; all of them
    spark.kafka.clusters.main.security.protocol                SASL_SSL
    spark.kafka.clusters.main.sasl.kerberos.service.name       kafka
    spark.kafka.clusters.main.ssl.truststore.location          .type, .password; ssl.keystore.*, ssl.key.password
    spark.kafka.clusters.main.sasl.token.mechanism             SCRAM-SHA-512: how tasks log in with the token
    spark.kafka.clusters.main.kafka.<name>                     any other setting of the client that asks

1. Who asks logs in as Kerberos says, unless kafka.sasl.mechanism and its login say otherwise.
2. A name that nobody knows is an error, and what the client would refuse is refused here. No error and no repr shows a
   value that may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.client.admin.settings import AdminSettings
from ottla.errors import InvalidConfig
from ottla.light_dataclasses import dataclass, field
from ottla.spark.option_table import InvalidOption
from ottla.spark.tokens.driver import PREFIX

SERVERS: Final = "auth.bootstrap.servers"
PATTERN: Final = "target.bootstrap.servers.regex"
PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.token.mechanism"
SERVICE: Final = "sasl.kerberos.service.name"
CLIENT: Final = "kafka."
TLS: Final = (
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.key.password",
)
NAMES: Final = (SERVERS, PATTERN, PROTOCOL, SERVICE, MECHANISM, *TLS)
SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
DEFAULTS: Final[Mapping[str, str]] = {PATTERN: ".*", PROTOCOL: "SASL_SSL", MECHANISM: "SCRAM-SHA-512"}


@dataclass(frozen=True, slots=True)
class TokenCluster:
    """A cluster that gives tokens; `asking` are the settings of the client that asks for them."""

    name: str
    pattern: str
    security_protocol: str
    token_mechanism: str
    asking: Mapping[str, str] = field(repr=False)

    def is_for(self, bootstrap_servers: str) -> bool:
        return is_for_one_of(bootstrap_servers, self.pattern)


def is_for_one_of(bootstrap_servers: str, pattern: str) -> bool:
    """Whether a pattern matches the whole of one of the addresses."""
    addresses = (each.strip() for each in bootstrap_servers.split(","))
    return any(re.fullmatch(pattern, each) for each in addresses)


def parse_clusters(settings: Mapping[str, str]) -> tuple[TokenCluster, ...]:
    """All clusters that the settings of a session name."""
    by_cluster: dict[str, dict[str, str]] = {}
    for key, value in settings.items():
        if key.startswith(PREFIX):
            name, _, setting = key.removeprefix(PREFIX).partition(".")
            by_cluster.setdefault(name, {})[setting] = str(value)
    return tuple(_cluster(name, values) for name, values in sorted(by_cluster.items()))


def _cluster(name: str, values: Mapping[str, str]) -> TokenCluster:
    for setting in values:
        if setting not in NAMES and not setting.startswith(CLIENT):
            raise InvalidOption(f"there is no setting {PREFIX}{name}.{setting}; there are {', '.join(NAMES)}, kafka.*")
    if not values.get(SERVERS, "").strip():
        raise InvalidOption(f"{PREFIX}{name}.{SERVERS} is missing; it must be one or more host:port of brokers")
    with_defaults = {**DEFAULTS, **values}
    try:
        re.compile(with_defaults[PATTERN])
    except re.error as problem:
        raise InvalidOption(f"{PREFIX}{name}.{PATTERN} is not a regular expression: {problem}") from None
    if with_defaults[MECHANISM] not in SCRAM_MECHANISMS:
        raise InvalidOption(f"{PREFIX}{name}.{MECHANISM} must be one of {', '.join(SCRAM_MECHANISMS)}")
    protocol = with_defaults[PROTOCOL]
    return TokenCluster(name, with_defaults[PATTERN], protocol, with_defaults[MECHANISM], _asking(name, with_defaults))


def _asking(name: str, values: Mapping[str, str]) -> dict[str, str]:
    asking = {"bootstrap.servers": values[SERVERS], PROTOCOL: values[PROTOCOL]}
    asking.update((setting, values[setting]) for setting in TLS if setting in values)
    if values[PROTOCOL].startswith("SASL"):
        asking["sasl.mechanism"] = "GSSAPI"
    if SERVICE in values:
        asking[SERVICE] = values[SERVICE]
    asking.update((key.removeprefix(CLIENT), value) for key, value in values.items() if key.startswith(CLIENT))
    try:
        AdminSettings(dict(asking))
    except InvalidConfig as problem:
        raise InvalidOption(f"{PREFIX}{name}: {problem}") from None
    return asking
