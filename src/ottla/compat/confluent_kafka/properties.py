"""Every property that librdkafka knows: for whom it is, what values it takes, and what becomes of it here.

A row is: name, C(onsumer) P(roducer) or * both, kind of value, bounds or choices, and one of

    -> NAME        it is our setting NAME
    = NAME         another word for the property NAME
    here           the classes of this package act on it themselves
    no effect: R   accepted, and passed over for the reason R
    callback       only to be set by a callback's own name, as in librdkafka
    internal       cannot be set, as in librdkafka
    windows        known on Windows only, as in librdkafka

A test asks the installed librdkafka for its own table and compares name, kind and bounds of every row.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from ottla.light_tuples import NamedTuple

CALLBACK: Final = "callback"
INTERNAL: Final = "internal"
WINDOWS: Final = "windows"
HERE: Final = "here"
NO_EFFECT: Final = "no effect: "


class Property(NamedTuple):
    """One row."""

    name: str
    scope: str
    kind: str
    bounds: tuple[int, int] | None
    choices: tuple[str, ...]
    effect: str

    @property
    def alias_of(self) -> str | None:
        return self.effect.removeprefix("= ") if self.effect.startswith("= ") else None

    @property
    def ours(self) -> str | None:
        """The name of our setting."""
        return self.effect.removeprefix("-> ") if self.effect.startswith("-> ") else None

    @property
    def why_unused(self) -> str | None:
        return self.effect.removeprefix(NO_EFFECT) if self.effect.startswith(NO_EFFECT) else None


FLAGS: Final = {
    "builtin.features": "gzip snappy ssl sasl regex lz4 sasl_gssapi sasl_plain sasl_scram plugins zstd sasl_oauthbearer"
    " http oidc",
    "debug": "generic broker topic metadata feature queue msg protocol cgrp security fetch interceptor plugin consumer"
    " admin eos mock assignor conf telemetry all",
}
DEPRECATED: Final = frozenset(
    """
topic.metadata.refresh.fast.cnt socket.blocking.max.ms reconnect.backoff.jitter.ms api.version.request
api.version.fallback.ms broker.version.fallback ssl.engine.location offset.store.method queuing.strategy
produce.offset.report auto.commit.enable offset.store.path offset.store.sync.interval.ms
    """.split()  # noqa: SIM905  # reads like the table below
)


@cache
def properties() -> dict[str, Property]:
    """All of them by name."""
    found = (_property(row) for row in ROWS.strip().splitlines())
    return {each.name: each for each in found}


def canonical(name: str) -> str:
    """The property that a name stands for."""
    found = properties().get(name)
    return name if found is None or found.alias_of is None else found.alias_of


def _property(row: str) -> Property:
    name, scope, kind, values, effect = row.split(maxsplit=4)
    if kind in ("int", "float"):
        low, high = values.split("..")
        return Property(name, scope, kind, (int(low), int(high)), (), effect)
    choices = tuple(FLAGS[name].split()) if kind == "flags" else tuple(values.split(",")) if kind == "enum" else ()
    return Property(name, scope, kind, None, choices, effect)


ROWS: Final = """
builtin.features * flags - no effect: the codecs and mechanisms are those that are installed
client.id * text - -> client.id
metadata.broker.list * text - = bootstrap.servers
bootstrap.servers * text - -> bootstrap.servers
message.max.bytes * int 1000..1000000000 -> max.request.size
message.copy.max.bytes * int 0..1000000000 no effect: values are never copied into a socket buffer of their own
receive.message.max.bytes * int 1000..2147483647 no effect: answers are bounded by fetch.max.bytes
max.in.flight.requests.per.connection * int 1..1000000 -> max.in.flight.requests.per.connection
max.in.flight * int 1..1000000 = max.in.flight.requests.per.connection
metadata.recovery.strategy * enum none,rebootstrap -> metadata.recovery.strategy
metadata.recovery.rebootstrap.trigger.ms * int 0..2147483647 -> metadata.recovery.rebootstrap.trigger.ms
topic.metadata.refresh.interval.ms * int -1..3600000 -> metadata.max.age.ms
metadata.max.age.ms * int 1..86400000 -> metadata.max.age.ms
topic.metadata.refresh.fast.interval.ms * int 1..60000 no effect: retry.backoff.ms counts for metadata too
topic.metadata.refresh.fast.cnt * int 0..1000 no effect: librdkafka does not use it either
topic.metadata.refresh.sparse * bool - no effect: only topics in use are asked for
topic.metadata.propagation.max.ms * int 0..3600000 here
topic.blacklist * text - no effect: only topics in use are asked for
debug * flags - here
socket.timeout.ms * int 10..300000 -> request.timeout.ms
socket.blocking.max.ms * int 1..60000 no effect: librdkafka does not use it either
socket.send.buffer.bytes * int 0..100000000 -> send.buffer.bytes
socket.receive.buffer.bytes * int 0..100000000 -> receive.buffer.bytes
socket.keepalive.enable * bool - no effect: connections.max.idle.ms closes what is not used
socket.nagle.disable * bool - no effect: requests are always sent at once
socket.max.fails * int 0..1000000 no effect: a connection that fails is always made again
broker.address.ttl * int 0..86400000 no effect: names are looked up at every connection
broker.address.family * enum any,v4,v6 no effect: every address the name has is tried
socket.connection.setup.timeout.ms * int 1000..2147483647 -> socket.connection.setup.timeout.ms
connections.max.idle.ms * int 0..2147483647 -> connections.max.idle.ms
reconnect.backoff.jitter.ms * int 0..3600000 no effect: librdkafka does not use it either
reconnect.backoff.ms * int 0..3600000 -> reconnect.backoff.ms
reconnect.backoff.max.ms * int 0..3600000 -> reconnect.backoff.max.ms
statistics.interval.ms * int 0..86400000 here
enabled_events * int 0..2147483647 no effect: there is no event interface
error_cb * api - callback
throttle_cb * api - callback
stats_cb * api - callback
log_cb * api - callback
log_level * int 0..7 no effect: use the logging module
log.queue * bool - no effect: use the logging module
log.thread.name * bool - no effect: use the logging module
enable.random.seed * bool - no effect: chance comes from the system
log.connection.close * bool - no effect: use the logging module
background_event_cb * api - callback
socket_cb * api - callback
connect_cb * api - callback
closesocket_cb * api - callback
open_cb * api - callback
resolve_cb * api - callback
opaque * api - callback
default_topic_conf * api - callback
internal.termination.signal * int 0..128 no effect: there are no threads to be signalled
api.version.request * bool - no effect: versions are always asked for
api.version.request.timeout.ms * int 1..300000 no effect: versions are always asked for
api.version.fallback.ms * int 0..604800000 no effect: versions are always asked for
broker.version.fallback * text - no effect: versions are always asked for
allow.auto.create.topics * bool - -> allow.auto.create.topics
security.protocol * enum plaintext,ssl,sasl_plaintext,sasl_ssl -> security.protocol
ssl.cipher.suites * text - -> ssl.cipher.suites
ssl.curves.list * text - no effect: the curves are those of Python's ssl module
ssl.sigalgs.list * text - no effect: the algorithms are those of Python's ssl module
ssl.key.location * text - -> ssl.key.location
ssl.key.password * text - -> ssl.key.password
ssl.key.pem * text - -> ssl.keystore.key
ssl_key * api - internal
ssl.certificate.location * text - -> ssl.certificate.location
ssl.certificate.pem * text - -> ssl.keystore.certificate.chain
ssl_certificate * api - internal
ssl.ca.location * text - -> ssl.truststore.location
https.ca.location * text - no effect: the token endpoint is checked against the system's authorities
https.ca.pem * text - no effect: the token endpoint is checked against the system's authorities
ssl.ca.pem * text - -> ssl.truststore.certificates
ssl_ca * api - internal
ssl.ca.certificate.stores * text - windows
ssl.crl.location * text - -> ssl.crl.location
ssl.keystore.location * text - -> ssl.keystore.location
ssl.keystore.password * text - -> ssl.keystore.password
ssl.providers * text - no effect: TLS is Python's ssl module
ssl.engine.location * text - no effect: TLS is Python's ssl module
ssl.engine.id * text - no effect: TLS is Python's ssl module
ssl_engine_callback_data * api - callback
enable.ssl.certificate.verification * bool - -> enable.ssl.certificate.verification
ssl.endpoint.identification.algorithm * enum none,https -> ssl.endpoint.identification.algorithm
ssl.certificate.verify_cb * api - callback
sasl.mechanisms * text - -> sasl.mechanism
sasl.mechanism * text - = sasl.mechanisms
sasl.kerberos.service.name * text - -> sasl.kerberos.service.name
sasl.kerberos.principal * text - -> sasl.kerberos.principal
sasl.kerberos.kinit.cmd * text - no effect: tickets come from keytab or cache
sasl.kerberos.keytab * text - -> sasl.kerberos.keytab
sasl.kerberos.min.time.before.relogin * int 0..86400000 no effect: tickets come from keytab or cache
sasl.username * text - -> sasl.username
sasl.password * text - -> sasl.password
sasl.oauthbearer.config * text - here
enable.sasl.oauthbearer.unsecure.jwt * bool - here
oauthbearer_token_refresh_cb * api - callback
sasl.oauthbearer.method * enum default,oidc -> sasl.oauthbearer.method
sasl.oauthbearer.client.id * text - -> sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.id * text - = sasl.oauthbearer.client.id
sasl.oauthbearer.client.credentials.client.secret * text - = sasl.oauthbearer.client.secret
sasl.oauthbearer.client.secret * text - -> sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.scope * text - -> sasl.oauthbearer.scope
sasl.oauthbearer.extensions * text - -> sasl.oauthbearer.extensions
sasl.oauthbearer.token.endpoint.url * text - -> sasl.oauthbearer.token.endpoint.url
sasl.oauthbearer.sub.claim.name * text - no effect: the broker reads claims
sasl.oauthbearer.grant.type * enum client_credentials,urn:ietf:params:oauth:grant-type:jwt-bearer no effect: by oauth_cb
sasl.oauthbearer.assertion.algorithm * enum RS256,ES256 no effect: by oauth_cb
sasl.oauthbearer.assertion.private.key.file * text - no effect: by oauth_cb
sasl.oauthbearer.assertion.private.key.passphrase * text - no effect: by oauth_cb
sasl.oauthbearer.assertion.private.key.pem * text - no effect: by oauth_cb
sasl.oauthbearer.assertion.file * text - no effect: by oauth_cb
sasl.oauthbearer.assertion.claim.aud * text - no effect: by oauth_cb
sasl.oauthbearer.assertion.claim.exp.seconds * int 1..2147483647 no effect: by oauth_cb
sasl.oauthbearer.assertion.claim.iss * text - no effect: by oauth_cb
sasl.oauthbearer.assertion.claim.jti.include * bool - no effect: by oauth_cb
sasl.oauthbearer.assertion.claim.nbf.seconds * int 0..2147483647 no effect: by oauth_cb
sasl.oauthbearer.assertion.claim.sub * text - no effect: by oauth_cb
sasl.oauthbearer.assertion.jwt.template.file * text - no effect: by oauth_cb
sasl.oauthbearer.metadata.authentication.type * enum none,azure_imds,aws_iam no effect: by oauth_cb
plugin.library.paths * text - no effect: plug-ins of librdkafka cannot be loaded
interceptors * api - internal
group.id C text - -> group.id
group.instance.id C text - -> group.instance.id
partition.assignment.strategy C text - -> partition.assignment.strategy
session.timeout.ms C int 1..3600000 -> session.timeout.ms
heartbeat.interval.ms C int 1..3600000 -> heartbeat.interval.ms
group.protocol.type C text - no effect: it is always consumer
group.protocol C enum classic,consumer -> group.protocol
group.remote.assignor C text - -> group.remote.assignor
coordinator.query.interval.ms C int 1..3600000 no effect: the coordinator is looked up when it is needed
max.poll.interval.ms C int 1..86400000 -> max.poll.interval.ms
enable.auto.commit C bool - here
auto.commit.interval.ms C int 0..86400000 here
enable.auto.offset.store C bool - here
queued.min.messages C int 1..10000000 no effect: what is fetched ahead is limited by bytes, queued.max.messages.kbytes
queued.max.messages.kbytes C int 1..2097151 -> queued.max.bytes
fetch.wait.max.ms C int 0..300000 -> fetch.max.wait.ms
fetch.queue.backoff.ms C int 0..300000 no effect: fetching goes on as soon as there is room
fetch.message.max.bytes C int 1..1000000000 -> max.partition.fetch.bytes
max.partition.fetch.bytes C int 1..1000000000 = fetch.message.max.bytes
fetch.max.bytes C int 0..2147483135 -> fetch.max.bytes
fetch.min.bytes C int 0..2147483647 -> fetch.min.bytes
fetch.error.backoff.ms C int 0..300000 no effect: retry.backoff.ms counts for fetches too
offset.store.method C enum none,file,broker no effect: offsets are kept by the broker
isolation.level C enum read_uncommitted,read_committed -> isolation.level
consume_cb C api - callback
rebalance_cb C api - callback
offset_commit_cb C api - callback
enable.partition.eof C bool - here
check.crcs C bool - -> check.crcs
client.rack * text - -> client.rack
max.poll.records C int 1..2147483647 no effect: poll() gives one message, consume() as many as it is asked for
share.acknowledgement.mode C text - no effect: this is no share consumer
transactional.id P text - -> transactional.id
transaction.timeout.ms P int 1000..2147483647 -> transaction.timeout.ms
enable.idempotence P bool - -> enable.idempotence
enable.gapless.guarantee P bool - no effect: with idempotence there are no gaps
queue.buffering.max.messages P int 0..2147483647 here
queue.buffering.max.kbytes P int 1..2147483647 -> buffer.memory
queue.buffering.max.ms P float 0..900000 -> linger.ms
linger.ms P float 0..900000 = queue.buffering.max.ms
message.send.max.retries P int 0..2147483647 -> retries
retries P int 0..2147483647 = message.send.max.retries
retry.backoff.ms * int 1..300000 -> retry.backoff.ms
retry.backoff.max.ms * int 1..300000 -> retry.backoff.max.ms
queue.buffering.backpressure.threshold P int 1..1000000 no effect: batches go when full or after linger.ms
compression.codec P enum none,gzip,snappy,lz4,zstd -> compression.type
compression.type P enum none,gzip,snappy,lz4,zstd = compression.codec
batch.num.messages P int 1..1000000 no effect: batches are limited by batch.size
batch.size P int 1..2147483647 -> batch.size
delivery.report.only.error P bool - here
dr_cb P api - callback
dr_msg_cb P api - callback
sticky.partitioning.linger.ms P int 0..900000 no effect: records without a key move on when a batch is full
client.dns.lookup * enum use_all_dns_ips,resolve_canonical_bootstrap_servers_only -> client.dns.lookup
enable.metrics.push * bool - no effect: metrics are not pushed
request.required.acks P int -1..1000 -> acks
acks P int -1..1000 = request.required.acks
request.timeout.ms P int 1..900000 -> request.timeout.ms
message.timeout.ms P int 0..2147483647 -> delivery.timeout.ms
delivery.timeout.ms P int 0..2147483647 = message.timeout.ms
queuing.strategy P enum fifo,lifo no effect: the oldest record is always sent first
produce.offset.report P bool - no effect: offsets are always reported
partitioner P text - -> partitioner.class
partitioner_cb P api - callback
msg_order_cmp P api - callback
compression.level P int -1..12 -> compression.level
auto.commit.enable C bool - no effect: use enable.auto.commit
auto.offset.reset C enum smallest,earliest,beginning,largest,latest,end,error -> auto.offset.reset
offset.store.path C text - no effect: offsets are kept by the broker
offset.store.sync.interval.ms C int -1..86400000 no effect: offsets are kept by the broker
consume.callback.max.messages C int 0..1000000 no effect: there are no consume callbacks
client.software.name * text - no effect: the broker sees ottla
client.software.version * text - no effect: the broker sees ottla
"""
