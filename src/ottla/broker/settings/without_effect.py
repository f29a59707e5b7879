"""Settings that are taken and checked but change nothing, so that nobody is left believing that they do.

1. NOT_YET: Kafka acts on them and Ottla will. MEANINGLESS: there is nothing here that they could change (threads of a
   JVM, a controller quorum). When one is set, the broker says so in one line at the start.
2. What would seem to protect but does not is refused, not warned of: `refuse_false_safety`.
3. Who makes a setting work removes it from NOT_YET.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.access import AUTHORIZERS, AccessSettings
from ottla.broker.settings.kraft import KRaftSettings
from ottla.broker.settings.listener_keys import parse_listener_key
from ottla.broker.settings.sharing import SharingSettings
from ottla.errors import InvalidSetting
from ottla.settings import Settings


def _names(group: type[Settings]) -> frozenset[str]:
    return frozenset(each.name for each in group.declared())


MEANINGLESS: Final = (_names(KRaftSettings) - {"controller.listener.names"}) | {
    *("num.network.threads", "num.io.threads", "background.threads", "early.start.listeners"),
    "queued.max.requests",  # there is no queue between who reads a request and who begins it
    *("group.coordinator.threads", "group.coordinator.background.threads", "group.coordinator.append.linger.ms"),
    *("group.coordinator.cached.buffer.max.bytes", "offsets.commit.required.acks"),
    *("share.coordinator.threads", "share.coordinator.append.linger.ms", "share.coordinator.cached.buffer.max.bytes"),
    *("fetch.purgatory.purge.interval.requests", "producer.purgatory.purge.interval.requests"),
    *("delete.records.purgatory.purge.interval.requests", "share.fetch.purgatory.purge.interval.requests"),
    *("metric.reporters", "kafka.metrics.reporters", "kafka.metrics.polling.interval.secs"),
    *("config.providers", "security.providers", "ssl.provider", "ssl.keymanager.algorithm"),
    *("ssl.trustmanager.algorithm", "ssl.secure.random.implementation", "log.dir.failure.timeout.ms"),
}

_CLUSTER: Final = {
    *("control.plane.listener.name", "cordoned.log.dirs", "num.replica.alter.log.dirs.threads"),
    *("replica.alter.log.dirs.io.max.bytes.per.second", "replica.socket.receive.buffer.bytes"),
    *("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms", "broker.id.generation.enable"),
    *("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"),
}
_QUOTAS: Final = {
    *("alter.log.dirs.replication.quota.window.num", "alter.log.dirs.replication.quota.window.size.seconds"),
    "client.quota.callback.class",
}
_RIGHTS: Final = {"authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found"}  # these have an effect
_LOGIN: Final = {  # and these
    *("sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.server.max.receive.size"),
    *("sasl.mechanism.inter.broker.protocol", "sasl.server.callback.handler.class", "sasl.login.read.timeout.ms"),
    *("ottla.oauthbearer.allowed.urls", "sasl.oauthbearer.expected.audience", "sasl.oauthbearer.expected.issuer"),
    *("sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.scope.claim.name"),
    *("sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwks.endpoint.refresh.ms"),
    *("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    *("sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms", "sasl.oauthbearer.token.endpoint.url"),
    *("sasl.oauthbearer.scope", "sasl.oauthbearer.client.credentials.client.id"),
    "sasl.oauthbearer.client.credentials.client.secret",
}
_TOKENS: Final = {each for each in _names(AccessSettings) if each.startswith("delegation.token.")}  # and these
_SECURITY: Final = _names(AccessSettings) - MEANINGLESS - _RIGHTS - _LOGIN - _TOKENS
_OTHERS: Final = {
    *("create.topic.policy.class.name", "alter.config.policy.class.name"),
    *("metrics.num.samples", "metrics.sample.window.ms"),
    *("metrics.recording.level", "telemetry.max.bytes", "log.cleaner.threads"),
    *("unstable.api.versions.enable", "num.recovery.threads.per.data.dir"),
    *("log.initial.task.delay.ms", "offsets.load.buffer.size"),
    *("offsets.topic.compression.codec", "transaction.state.log.load.buffer.size"),
}
NOT_YET: Final = frozenset((_CLUSTER | _QUOTAS | _SECURITY | _names(SharingSettings) | _OTHERS) - MEANINGLESS)


def warnings(settings: BrokerSettings) -> list[str]:
    """At most two lines: what was set and does nothing yet, what was set and means nothing here."""
    lines = []
    if names := _set_among(settings, NOT_YET):
        lines.append(f"set, but not acted on yet: {', '.join(names)}")
    if names := _set_among(settings, MEANINGLESS):
        lines.append(f"set, but without meaning in Ottla: {', '.join(names)}")
    return lines


def _set_among(settings: BrokerSettings, names: Iterable[str]) -> list[str]:
    among = frozenset(names)
    return sorted(key for key in settings.configured_names() if _plain(key) in among)


def _plain(key: str) -> str:
    parsed = parse_listener_key(key, NAMES)
    return key if parsed is None else parsed.setting


NAMES: Final = _names(BrokerSettings)


def refuse_false_safety(settings: BrokerSettings) -> None:
    """Refuse what a broker must not pretend: rights that nobody checks."""
    if settings.super_users and not settings.authorizer_class_name:
        raise InvalidSetting(
            "super.users is set, but without an authorizer everybody may do everything; "
            f"set authorizer.class.name, for example to {AUTHORIZERS[-1]}"
        )
    for name in ("client.quota.callback.class",):
        if settings.as_dict()[name]:
            raise InvalidSetting(f"{name} is set, but Ottla does not check rights yet; remove it to start without")
