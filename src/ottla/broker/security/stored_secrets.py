"""Secrets that are set while running are stored with the other settings, but not where others could read them.

The embedded store is a file of the broker's own directory, as in KRaft. In ZooKeeper Kafka encrypts them with
password.encoder.secret. That is not done here yet, so a member of a cluster takes no secret by AlterConfigs.
"""

from __future__ import annotations

from ottla.broker.settings import BrokerSettings
from ottla.errors import InvalidSetting
from ottla.settings import Source


def refuse_stored_secrets(settings: BrokerSettings) -> None:
    """InvalidSetting when a secret would be stored in ZooKeeper."""
    for key in settings.written(Source.DYNAMIC):
        declared = settings.setting_of(key)
        if declared is not None and declared.sensitive:
            raise InvalidSetting(
                f"{key} is a secret and would be stored unencrypted in ZooKeeper; put it into the broker's file, or "
                "use PEM files with an unlocked key that only the broker may read"
            )
