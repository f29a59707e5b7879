"""kcat through both locks: TLS with every kind of login or with a certificate, and the rules behind.

The matrix of test_locked_python.py for the tool at the command line. Skipped where it is not installed
(`apt install kcat`). Distributions build it with an old librdkafka: before 2.6.1 its SCRAM is refused by Kafka 4 and by
us (scram_server.py), and without an HTTP client it cannot fetch tokens. Then those two are tried with the librdkafka
that confluent-kafka brings along.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.locked_broker import LOGINS, OTHERS, Access, LockedBroker, locked_broker
from tests.conformance.locked_java import tokens_for_java
from tests.patience import HANG_S

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
LINES = [f"line {number}" for number in range(10)]
FEATURES = {"SCRAM-SHA-256": "sasl_scram", "SCRAM-SHA-512": "sasl_scram", "OAUTHBEARER": "oidc"}
REFUSED_BEFORE = (2, 6, 1)

pytestmark = pytest.mark.skipif(KCAT is None, reason="needs kcat, and it is not installed")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBroker]:
    with locked_broker(tmp_path_factory.mktemp("locked")) as made:
        made.make_topics(["kcat"])
        yield made


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    with tokens_for_java() as url:
        yield url


# --- which librdkafka -----------------------------------------------------------------------------------------------


@functools.cache
def fits(preload: str, login: str) -> bool:
    """Whether kcat can do this login, with a library loaded before its own."""
    environment = os.environ | {"LD_PRELOAD": preload}
    text = subprocess.run([str(KCAT), "-V"], capture_output=True, text=True, env=environment, check=True).stdout
    version = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", text)
    assert version is not None, text
    return FEATURES[login] in text and tuple(map(int, version.groups())) >= REFUSED_BEFORE


def library_for(login: str) -> str:
    """What must be loaded before kcat's own librdkafka: nothing, or the one of confluent-kafka."""
    files = importlib.metadata.files("confluent-kafka") or []
    bundled = [str(Path(str(each.locate()))) for each in files if each.name.startswith("librdkafka")]
    if login in FEATURES:
        for preload in ("", *bundled):
            if fits(preload, login):
                return preload
        pytest.skip(f"needs a kcat with librdkafka 2.6.1 or newer and with {FEATURES[login]}")
    return ""


# --- the matrix -----------------------------------------------------------------------------------------------------


def settings_of(access: Access, provider: str) -> dict[str, str]:
    settings = {"security.protocol": access.protocol, "ssl.ca.location": str(access.ca)}
    if access.store is not None:
        return settings | {"ssl.certificate.location": str(access.store), "ssl.key.location": str(access.store)}
    settings["sasl.mechanism"] = access.login
    if access.login == "GSSAPI":  # with the ticket in the cache; librdkafka would call kinit
        return settings | {"sasl.kerberos.kinit.cmd": "true"}
    if access.login == "OAUTHBEARER":
        return settings | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": provider,
            "sasl.oauthbearer.client.id": access.user,
            "sasl.oauthbearer.client.secret": access.password,
        }
    return settings | {"sasl.username": access.user, "sasl.password": access.password}


class Kcat:
    """The tool, as one user."""

    def __init__(self, access: Access, provider: str = "") -> None:
        options = [word for pair in settings_of(access, provider).items() for word in ("-X", "=".join(pair))]
        self._command = [str(KCAT), "-b", access.servers, *options]
        self._environment = os.environ | {"LD_PRELOAD": library_for(access.login)}

    def run(self, *arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *arguments],
            input=lines,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            env=self._environment,
            check=False,
        )


@pytest.mark.parametrize("login", LOGINS)
def test_a_user_writes_and_reads_its_own_topic_and_no_other(broker: LockedBroker, provider: str, login: str) -> None:
    check_kcat(broker.access(login), provider)


def check_kcat(access: Access, provider: str = "") -> None:
    kcat = Kcat(access, provider)
    written = kcat.run("-P", "-t", access.topic("kcat"), lines="\n".join(LINES))
    assert written.returncode == 0, written.stderr
    start = ("-q", "-X", "auto.offset.reset=earliest", "-c", str(len(LINES)))
    assert kcat.run(*start, "-G", access.group, access.topic("kcat")).stdout.splitlines() == LINES
    for refused in (kcat.run("-P", "-t", OTHERS, lines="x"), kcat.run("-C", "-e", "-t", OTHERS)):
        assert refused.returncode != 0
        assert "Topic authorization failed" in refused.stderr
