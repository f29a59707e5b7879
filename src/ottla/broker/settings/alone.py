"""A broker on its own has one replica of everything: what asks for more is refused, or said to be in the way.
The brokers of one `ottla broker start --brokers N` have N at most.

1. Refused is what would make every group or every transaction wait for ever: their topics could not be made, or could
   not be written. Kafka starts with such a file, and its clients hang.
2. Warned of is what makes a part fail, with an error that the client sees: topics without a number of replicas, writes
   with acks=all.
3. The server.properties that Kafka ships has 1 for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.broker.settings import BrokerSettings
from ottla.errors import InvalidSetting

_HANGS: Final = {
    "offsets.topic.replication.factor": "no consumer group could work",
    "transaction.state.log.replication.factor": "no transaction could work",
    "transaction.state.log.min.isr": "no transaction could work",
}
_FAILS: Final = {
    "default.replication.factor": "topics that are made without a number of replicas fail",
    "min.insync.replicas": "writes with acks=all fail",
}


def refuse_missing_replicas(settings: BrokerSettings, brokers: int = 1) -> None:
    """InvalidSetting when groups and transactions need more brokers than there are."""
    for sentence in _wanting_more(settings, _HANGS, brokers):
        raise InvalidSetting(sentence)


def replica_warnings(settings: BrokerSettings, brokers: int = 1) -> list[str]:
    """One line for each setting that asks for replicas that are not there."""
    return list(_wanting_more(settings, _FAILS, brokers))


def _wanting_more(settings: BrokerSettings, reasons: dict[str, str], brokers: int) -> Iterator[str]:
    if not settings.is_alone:
        return
    where = "on a broker that is alone" if brokers == 1 else f"with {brokers} brokers"
    for name, why in reasons.items():
        if (value := _value(settings, name)) > brokers:
            yield f"{name}={value} {where}: {why}; set it to {brokers}{'' if brokers == 1 else ' or less'}"


def _value(settings: BrokerSettings, name: str) -> int:
    value = settings.as_dict()[name]
    assert isinstance(value, int)
    return value
