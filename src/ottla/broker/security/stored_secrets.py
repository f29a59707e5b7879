"""Secrets that are set while running are stored with the other settings, but not where others could read them.

1. The metadata log is a file of the broker's own directory, and so is the one that several brokers of a machine
   share: they are kept as they are, as in KRaft.
2. In ZooKeeper they are encrypted with password.encoder.secret, as Kafka 3.9 does (password_encoder.py). Without it a
   member of a cluster takes no secret by AlterConfigs, and uses none that is stored.
3. When the secret is replaced (password.encoder.old.secret), a broker encodes its own secrets anew at its next start.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.settings import BrokerSettings
from ottla.cluster.changes import AlterConfig
from ottla.cluster.config_layers import ConfigRules, PlainSecrets, Secrets
from ottla.cluster.configs import ConfigPlan
from ottla.cluster.image import ClusterImage
from ottla.errors import InvalidSetting

NO_ENCODER: Final = (
    "ZooKeeper keeps the settings, for all to read: set password.encoder.secret in the broker's file, which encrypts "
    "secrets there, or write this one into the file"
)


def secrets_of(settings: BrokerSettings) -> Secrets:
    """How this broker's secrets are stored; InvalidSetting when they cannot be encoded as the settings say."""
    if not settings.zookeeper_connect:
        return PlainSecrets()
    if settings.password_encoder_secret is None:
        return _Refusal()
    from ottla.broker.security.password_encoder import PasswordEncoder

    old = settings.password_encoder_old_secret
    return PasswordEncoder(
        settings.password_encoder_secret.value,
        None if old is None else old.value,
        cipher=settings.password_encoder_cipher_algorithm,
        key_factory=settings.password_encoder_keyfactory_algorithm,
        key_bits=settings.password_encoder_key_length,
        iterations=settings.password_encoder_iterations,
    )


class _Refusal:
    """Nothing is stored, and nothing that is stored is used."""

    def encode(self, text: str) -> str:
        raise InvalidSetting(NO_ENCODER)

    def decode(self, text: str) -> str:
        raise InvalidSetting("it is encrypted, and the broker's file has no password.encoder.secret")

    def is_outdated(self, text: str) -> bool:
        return False


def encode_anew(image: ClusterImage, rules: ConfigRules) -> ConfigPlan:
    """The plan that replaces what was encoded with the old secret."""
    readable = rules.readable(image.config(rules.broker_resource))
    outdated = tuple(
        (name, rules.secrets.encode(readable[name]))
        for name, text in image.config(rules.broker_resource).items()
        if rules.is_secret(name) and name in readable and rules.secrets.is_outdated(text)
    )
    return ConfigPlan((AlterConfig(rules.broker_resource, outdated),) if outdated else (), [])
