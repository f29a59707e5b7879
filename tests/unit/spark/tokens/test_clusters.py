"""spark.kafka.clusters.*: Spark's names and defaults, what is refused, and what is never shown."""

from __future__ import annotations

import pytest

from ottla.spark.option_table import InvalidOption
from ottla.spark.tokens.clusters import TokenCluster, parse_clusters

PLAIN = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "alice", "kafka.sasl.password": "pencil"}


def cluster(**settings: str) -> TokenCluster:
    given = {"auth.bootstrap.servers": "kafka:9094", "security.protocol": "SASL_PLAINTEXT", **PLAIN, **settings}
    (found,) = parse_clusters({f"spark.kafka.clusters.main.{name}": value for name, value in given.items()})
    return found


def test_defaults_are_those_of_sparks_connector() -> None:
    found = cluster()
    assert (found.name, found.pattern, found.token_mechanism) == ("main", ".*", "SCRAM-SHA-512")
    assert cluster(**{"security.protocol": "SSL"}).security_protocol == "SSL"


def test_the_client_that_asks_gets_its_settings() -> None:
    found = cluster(**{"kafka.request.timeout.ms": "5000"})
    assert found.asking == {
        "bootstrap.servers": "kafka:9094",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "pencil",
        "request.timeout.ms": "5000",
    }


def test_every_cluster_is_found_and_other_settings_are_not_touched() -> None:
    both = {f"spark.kafka.clusters.{name}.auth.bootstrap.servers": f"{name}:1" for name in ("b", "a")}
    protocols = {f"spark.kafka.clusters.{name}.security.protocol": "SSL" for name in ("b", "a")}
    found = parse_clusters({**both, **protocols, "spark.app.name": "x", "spark.kafka.consumer.cache.timeout": "1"})
    assert [each.name for each in found] == ["a", "b"]
    assert parse_clusters({"spark.app.name": "x"}) == ()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"auth.bootstrap.servers": ""}, "auth.bootstrap.servers is missing"),
        ({"target.bootstrap.servers.regex": "("}, "not a regular expression"),
        ({"sasl.token.mechanism": "PLAIN"}, "SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"sasl.token.mechanisms": "SCRAM-SHA-512"}, "there is no setting"),
        ({"kafka.request.timeout.ms": "soon"}, "request.timeout.ms"),
        ({"security.protocol": "SASL_TELEPATHY"}, "security.protocol"),
    ],
)
def test_what_cannot_work_is_refused_without_showing_secrets(settings: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOption, match=words) as refused:
        cluster(**settings)
    assert "pencil" not in str(refused.value)


def test_no_secret_is_shown() -> None:
    assert "pencil" not in repr(cluster())
