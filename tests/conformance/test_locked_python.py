"""Every Python client of the field, and ours, through both locks: TLS and each kind of login, and the rules behind.

    rows      ottla, ottla.aio, confluent-kafka, kafka-python, aiokafka
    columns   PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER by SASL_SSL; mTLS: a certificate instead of a login

The same matrix for Java's clients and tools is test_locked_java.py, for kcat test_locked_kcat.py, for Spark
tests/spark/test_locked.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conformance.locked_broker import LOGINS, OTHERS, Access, LockedBroker, locked_broker
from tests.conformance.locked_clients import CLIENTS, Refused

VALUES = [b"value %d" % number for number in range(10)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBroker]:
    with locked_broker(tmp_path_factory.mktemp("locked")) as made:
        made.make_topics(list(CLIENTS))
        yield made


@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_user_writes_and_reads_its_own_topic_and_no_other(broker: LockedBroker, client: str, login: str) -> None:
    check_client(client, broker.access(login))


def check_client(client: str, access: Access) -> None:
    user = CLIENTS[client](access)
    user.write(access.topic(client), VALUES)
    assert user.read(access.topic(client), len(VALUES)) == VALUES
    with pytest.raises(Refused):
        user.write(OTHERS, VALUES[:1])
    with pytest.raises(Refused):
        user.read(OTHERS, 1)
