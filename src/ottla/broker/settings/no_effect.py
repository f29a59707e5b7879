"""Why settings of Kafka's change nothing here: the reasons that declarations name as their `no_effect`.

1. Who makes a setting act removes its mark; a test finds marks of settings that are read, and settings without a mark
   that nobody reads (tests/unit/broker/settings/test_no_effect.py).
2. What kind of reason it is decides what happens when the setting is used, see ottla.settings.NoEffect.
"""

from __future__ import annotations

from typing import Final

from ottla.settings import NoEffect, NoEffectKind


def _make(kind: NoEffectKind, why: str, instead: str = "") -> NoEffect:
    return NoEffect(kind, why, instead)


# --- how fast something runs that is not here ------------------------------------------------------------------------

THREADS: Final = _make("tuning", "one loop serves everything, there are no such threads")
NO_QUEUE: Final = _make("tuning", "a request that was read is handled at once, there is no queue between")
PURGATORY: Final = _make("tuning", "requests that stop waiting are removed at once, there is nothing to purge")
INTERNAL_BATCHES: Final = _make("tuning", "a coordinator writes each change at once")
INTERNAL_LOADING: Final = _make("tuning", "internal topics are loaded in steps of a fixed size")
INTERNAL_CODEC: Final = _make("tuning", "records of internal topics are not compressed")
REQUIRED_ACKS: Final = _make("tuning", "commits of offsets always wait for all in-sync replicas")
FIXED_TIMES: Final = _make("tuning", "these times are fixed here")
SOCKET_BUFFERS: Final = _make("tuning", "the system chooses the buffer")
METRIC_SAMPLES: Final = _make("tuning", "metrics are counters, which are not sampled")
TICKET_RENEWAL: Final = _make("tuning", "Kerberos' own library gets a new ticket from the keytab when one ends")
NO_LINGER: Final = _make("tuning", "what comes while the log is synced goes with the next sync, nothing waits for more")
TOKEN_REFRESH: Final = _make("tuning", "a broker renews its own token at a fixed part of its life")

# --- what is not here ------------------------------------------------------------------------------------------------

UNSTABLE_VERSIONS: Final = _make("feature", "unstable versions of APIs are not offered")
REPORTERS: Final = _make("feature", "no Java class is loaded", "read /metrics of ottla.admin.listener instead")

# --- what would seem to protect --------------------------------------------------------------------------------------

CONTROL_PLANE: Final = _make(
    "protection",
    "requests of the controller come over the listener of brokers",
    "set inter.broker.listener.name instead",
)
EARLY_LISTENERS: Final = _make("protection", "all listeners open when the broker is ready", "remove it")
REVOCATION: Final = _make(
    "protection",
    "revoked certificates of ZooKeeper are not recognized",
    "remove it, and replace the trust store when a certificate is revoked",
)
POLICIES: Final = _make(
    "protection",
    "no Java class is loaded, so no policy is asked",
    "remove it, and limit who may create and alter with access rules (ottla acl)",
)
PRINCIPALS: Final = _make(
    "protection", "no Java class is loaded", "name the users of certificates with ssl.principal.mapping.rules instead"
)
QUOTA_CALLBACK: Final = _make("protection", "no Java class is loaded", "set quotas instead (ottla quota)")
LOGIN_CLASSES: Final = _make("protection", "no Java class is loaded", "write the login into sasl.jaas.config instead")
PROVIDERS: Final = _make("protection", "TLS is OpenSSL's, Java's providers are not there", "remove it")
CONFIG_PROVIDERS: Final = _make(
    "protection",
    "values such as ${file:path:key} are not looked up",
    "write the value itself, or pass it in an environment variable (KAFKA_...)",
)
BROKER_TOKENS: Final = _make(
    "protection",
    "a broker gets its own token with client credentials only",
    "set sasl.oauthbearer.client.credentials.client.id and .secret instead",
)
