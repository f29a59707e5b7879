"""Every error once: what happened, what to do, and what a program may do about it.

1. An error that travels on the wire is one class with Kafka's code. Its class name is the CamelCase of Kafka's
   name (NOT_ENOUGH_REPLICAS, NotEnoughReplicas); the docstring is the sentence the user reads.
2. Policy is data on the class, so that nobody keeps lists of codes:
     retriable                the same request may succeed later
     refresh_metadata         look up topics and leaders before trying again
     refresh_coordinator      look up the coordinator before trying again
     aborts_transaction       abort the transaction; the producer stays usable
     application_recoverable  this client instance is over; a new one can go on
     invalid_configuration    trying again is pointless until a person changes something
3. A code that is not in the table becomes UnknownErrorCode and keeps its number: a newer broker must not
   break an older client. Code 0 (NONE) is in the tables and stands for None, because it is not an error.
4. str(error) is: what happened, the broker's or our detail, what to do. Details are cut at DETAIL_LIMIT and
   put on one line, because they may come from a stranger.
5. Errors can be pickled and copied: what identifies them is in `args` and `__dict__`.

A class below a coded class without a code of its own (ConnectionClosed below NetworkException) is the same error
noticed by us instead of by a broker: it has the code and the policy of its parent and is not in the tables.
The table ends where the local errors begin; local errors without a code never travel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

DETAIL_LIMIT: Final = 1000
NONE: Final = 0

_by_code: dict[int, type[BrokerError] | None] = {NONE: None}
_by_name: dict[str, type[BrokerError] | None] = {"NONE": None}
_sentences: dict[type[OttlaError], str] = {}


def _spaced(class_name: str, space: str = " ") -> str:
    return "".join([space + each if each.isupper() else each for each in class_name])[1:]


def _sentence_of(error: type[OttlaError]) -> str:
    found = _sentences.get(error)
    if found is None:
        # Python -OO drops docstrings; the class name is then the best sentence left.
        text = error.__dict__.get("__doc__") or _spaced(error.__name__).capitalize() + "."
        found = _sentences[error] = " ".join(text.split())
    return found


class _FromDocstring:
    """A part of the sentence, made when it is first read: a start loads 150 errors and tells of none."""

    def __init__(self, part: Callable[[str], str]) -> None:
        self._part = part

    def __get__(self, _: object, error: type[OttlaError]) -> str:
        return self._part(_sentence_of(error))


class OttlaError(Exception):
    """Something went wrong in Ottla."""

    what = _FromDocstring(lambda sentence: sentence.partition(". ")[0].removesuffix("."))
    remedy = _FromDocstring(lambda sentence: sentence.partition(". ")[2])
    sentence = _FromDocstring(str)
    retriable = False
    refresh_metadata = False
    refresh_coordinator = False
    aborts_transaction = False
    application_recoverable = False
    invalid_configuration = False

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(*(() if detail is None else (detail,)))
        self.detail = detail

    @property
    def brief(self) -> str:
        """The detail alone, where an answer has Kafka's words; the whole sentence without one. Others' names stand in
        it, so it is cut: a text on the wire has 32,767 bytes at most."""
        return self.detail[:DETAIL_LIMIT] if self.detail else self.sentence

    def __str__(self) -> str:
        if not self.detail:
            return self.sentence
        detail = " ".join(self.detail[:DETAIL_LIMIT].split()).removesuffix(".")
        if detail.startswith(self.what):
            return f"{detail}."  # a broker of our own kind has sent the whole sentence
        return f"{self.what}: {detail}. {self.remedy}".rstrip()


class BrokerError(OttlaError):
    """The broker could not do what it was asked."""

    code = -1
    name = "UNKNOWN_SERVER_ERROR"

    def __init_subclass__(
        cls,
        *,
        code: int | None = None,
        retriable: bool = False,
        refresh_metadata: bool = False,
        refresh_coordinator: bool = False,
        aborts_transaction: bool = False,
        application_recoverable: bool = False,
        invalid_configuration: bool = False,
    ) -> None:
        super().__init_subclass__()
        if code is None:
            return
        cls.code = code
        cls.name = _spaced(cls.__name__, "_").upper()
        policy = {
            "retriable": retriable,
            "refresh_metadata": refresh_metadata,
            "refresh_coordinator": refresh_coordinator,
            "aborts_transaction": aborts_transaction,
            "application_recoverable": application_recoverable,
            "invalid_configuration": invalid_configuration,
        }
        for name, value in policy.items():
            if getattr(cls, name) is not value:
                setattr(cls, name, value)
        _register(cls)


class AuthenticationFailed(OttlaError):
    """The other side does not accept who we say we are. Check the credentials and the security settings."""

    invalid_configuration = True


class AuthorizationFailed(OttlaError):
    """This principal may not do that. Ask an administrator for an access rule that allows it."""

    invalid_configuration = True


def _register(error: type[BrokerError]) -> None:
    if error.code in _by_code:
        raise TypeError(f"error code {error.code} is declared twice, by {error.__name__} and {_by_code[error.code]}")
    _by_code[error.code] = error
    _by_name[error.name] = error


# --- the table -------------------------------------------------------------------------------------------------------


class UnknownServerError(BrokerError, code=-1):
    """The broker met an error it did not expect. Its log has the cause; try again only if the cause is known."""


class OffsetOutOfRange(BrokerError, code=1):
    """The offset is not in the partition's log: it was deleted already or not written yet.
    Seek to an offset that exists, or set auto.offset.reset to choose where to go on."""


class CorruptMessage(BrokerError, code=2, retriable=True):
    """A record batch fails its CRC, its size or its layout.
    It is sent again; if it fails every time, look for a faulty network, disk or serializer."""


class UnknownTopicOrPartition(BrokerError, code=3, retriable=True, refresh_metadata=True):
    """The broker does not know this topic or partition.
    Check the name, create the topic, or wait a moment if it was created just now."""


class InvalidFetchSize(BrokerError, code=4):
    """The fetch asks for a size that is not allowed. Ask for at least one byte and no more than the broker permits."""


class LeaderNotAvailable(BrokerError, code=5, retriable=True, refresh_metadata=True):
    """The partition has no leader at the moment.
    An election usually takes seconds; if it lasts, see whether the brokers with its replicas are up."""


class NotLeaderOrFollower(BrokerError, code=6, retriable=True, refresh_metadata=True):
    """This broker no longer leads the partition or has no replica of it.
    The client looks up the new leader and tries again."""


class RequestTimedOut(BrokerError, code=7, retriable=True):
    """The answer did not come in time.
    The request may still have taken effect; raise request.timeout.ms if the cluster is only slow."""


class BrokerNotAvailable(BrokerError, code=8):
    """That broker is not in the cluster now. See whether it is running and registered."""


class ReplicaNotAvailable(BrokerError, code=9, retriable=True, refresh_metadata=True):
    """The broker has no usable replica of the partition at the moment.
    The client asks another replica; if it lasts, look for a failed log directory."""


class MessageTooLarge(BrokerError, code=10):
    """A batch is larger than the topic or broker accepts.
    Send smaller records, or raise max.message.bytes of the topic together with max.request.size of the producer."""


class StaleControllerEpoch(BrokerError, code=11):
    """The order came from a controller that has been replaced. Its broker must step down; nothing was changed."""


class OffsetMetadataTooLarge(BrokerError, code=12):
    """The text committed with an offset is too long.
    Shorten it, or raise offset.metadata.max.bytes on the brokers."""


class NetworkException(BrokerError, code=13, retriable=True, refresh_metadata=True):
    """The connection broke before an answer came.
    The client connects again; if it lasts, check the address, the firewall and whether the broker is up."""


class CoordinatorLoadInProgress(BrokerError, code=14, retriable=True):
    """The coordinator is still reading its state from the log. Wait; it starts to answer when it has finished."""


class CoordinatorNotAvailable(BrokerError, code=15, retriable=True, refresh_coordinator=True):
    """There is no coordinator for this group or transactional id yet.
    If it lasts, see whether the internal topics have enough brokers for their replication factor."""


class NotCoordinator(BrokerError, code=16, retriable=True, refresh_coordinator=True):
    """This broker is not the coordinator of the group or transactional id.
    The client looks up the right one and tries again."""


class InvalidTopicException(BrokerError, code=17, invalid_configuration=True):
    """The topic name is not allowed, or the topic is internal.
    Use 1 to 249 letters, digits, dots, underscores and hyphens, and not just '.' or '..'."""


class RecordListTooLarge(BrokerError, code=18, invalid_configuration=True):
    """A batch is larger than a whole segment of the topic. Send smaller batches, or raise segment.bytes."""


class NotEnoughReplicas(BrokerError, code=19, retriable=True):
    """Fewer replicas are in sync than min.insync.replicas asks for, so nothing was written.
    Bring the missing brokers back; lowering min.insync.replicas trades safety for progress."""


class NotEnoughReplicasAfterAppend(BrokerError, code=20, retriable=True):
    """The records were written, but the in-sync set became too small before all replicas had them.
    A retry without enable.idempotence can write them twice."""


class InvalidRequiredAcks(BrokerError, code=21, invalid_configuration=True):
    """The produce request asks for a number of acknowledgements that does not exist. Set acks to 0, 1 or all."""


class IllegalGeneration(BrokerError, code=22, application_recoverable=True):
    """The group has moved on to a newer generation than this member's.
    The member must join again; work of the old generation cannot be committed."""


class InconsistentGroupProtocol(BrokerError, code=23):
    """The member offers no assignment strategy that all other members of the group know.
    Give all members at least one common partition.assignment.strategy."""


class InvalidGroupId(BrokerError, code=24):
    """The group id is empty or otherwise not usable. Set group.id."""


class UnknownMemberId(BrokerError, code=25, application_recoverable=True):
    """The coordinator does not know this member: it left, or its session ran out.
    Join again; if it happens often, raise session.timeout.ms or process fewer records per poll."""


class InvalidSessionTimeout(BrokerError, code=26):
    """The session time-out is outside what the broker allows.
    Choose session.timeout.ms between group.min.session.timeout.ms and group.max.session.timeout.ms of the broker."""


class RebalanceInProgress(BrokerError, code=27):
    """The group is handing out its partitions again. Call poll so that the member can join, then go on."""


class InvalidCommitOffsetSize(BrokerError, code=28):
    """The offset commit does not fit into one record of the offsets topic.
    Commit fewer partitions at once or shorter metadata."""


class TopicAuthorizationFailed(BrokerError, AuthorizationFailed, code=29, invalid_configuration=True):
    """This principal may not use the topic that way. Ask for an access rule on the topic."""


class GroupAuthorizationFailed(BrokerError, AuthorizationFailed, code=30, invalid_configuration=True):
    """This principal may not use the group that way. Ask for an access rule on the group."""


class ClusterAuthorizationFailed(BrokerError, AuthorizationFailed, code=31, invalid_configuration=True):
    """This principal may not do that to the cluster. Ask for an access rule on the cluster resource."""


class InvalidTimestamp(BrokerError, code=32):
    """A record's timestamp is too far from the broker's clock.
    Check the clocks, or message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic."""


class UnsupportedSaslMechanism(BrokerError, AuthenticationFailed, code=33, invalid_configuration=True):
    """The broker does not offer this SASL mechanism.
    Set sasl.mechanism to one of sasl.enabled.mechanisms of the listener."""


class IllegalSaslState(BrokerError, AuthenticationFailed, code=34, invalid_configuration=True):
    """The request does not fit the step the authentication is in.
    Check that security.protocol matches the listener the client connects to."""


class UnsupportedVersion(BrokerError, code=35, invalid_configuration=True):
    """The two sides have no common version of this request.
    Upgrade the older one, or do not use the feature that needs it."""


class TopicAlreadyExists(BrokerError, code=36):
    """A topic with this name is there already. Use it, or choose another name."""


class InvalidPartitions(BrokerError, code=37):
    """The number of partitions is not possible. It must be at least 1 and can grow, but never shrink."""


class InvalidReplicationFactor(BrokerError, code=38, invalid_configuration=True):
    """The replication factor is not possible. It must be at least 1 and at most the number of live brokers."""


class InvalidReplicaAssignment(BrokerError, code=39):
    """The assignment of replicas to brokers is not possible.
    Name live brokers, none twice in a partition, and the same number for every partition."""


class InvalidConfig(BrokerError, code=40, invalid_configuration=True):
    """A setting has a name or value that is not accepted. Correct it and try again; nothing was changed."""


class NotController(BrokerError, code=41, retriable=True):
    """This broker is not the controller. The client looks up the controller and tries again."""


class InvalidRequest(BrokerError, code=42):
    """The broker refuses the request because its fields contradict each other or the protocol.
    If your arguments are in order, this is a fault of the client."""


class UnsupportedForMessageFormat(BrokerError, code=43, invalid_configuration=True):
    """The topic keeps records in a format too old for this. Move the topic to record format v2."""


class PolicyViolation(BrokerError, code=44):
    """A policy of this cluster forbids the change. The detail comes from the policy; ask its administrator."""


class OutOfOrderSequenceNumber(BrokerError, code=45):
    """The broker misses records this producer sent before these.
    Some may be lost: close the producer, or abort the transaction, and send again from what was acknowledged."""


class DuplicateSequenceNumber(BrokerError, code=46):
    """The broker has these records already. They count as written; there is nothing to send again."""


class InvalidProducerEpoch(BrokerError, code=47, application_recoverable=True):
    """A newer producer with the same id has taken over, or the transaction timed out.
    Abort the transaction; close this producer if it is really a second one."""


class InvalidTxnState(BrokerError, code=48):
    """The transaction is not in a state in which this can be done.
    Follow the order init, begin, send, then commit or abort."""


class InvalidProducerIdMapping(BrokerError, code=49, application_recoverable=True):
    """The producer id does not belong to this transactional id any more, probably because it expired unused.
    Create a new producer and run init_transactions again."""


class InvalidTransactionTimeout(BrokerError, code=50):
    """The transaction time-out is longer than the brokers allow.
    Lower transaction.timeout.ms or raise transaction.max.timeout.ms on the brokers."""


class ConcurrentTransactions(BrokerError, code=51, retriable=True):
    """The previous transaction of this id is still being completed. Wait a moment; the client tries again."""


class TransactionCoordinatorFenced(BrokerError, code=52):
    """The marker came from a transaction coordinator that has been replaced. The new coordinator finishes the work."""


class TransactionalIdAuthorizationFailed(BrokerError, AuthorizationFailed, code=53, invalid_configuration=True):
    """This principal may not use the transactional id. Ask for an access rule on the transactional id."""


class SecurityDisabled(BrokerError, code=54):
    """The cluster has no authorizer, so there are no access rules. Set authorizer.class.name on the brokers."""


class OperationNotAttempted(BrokerError, code=55):
    """The broker did not try this part because another part of the same request failed.
    Correct the other part and send the request again."""


class KafkaStorageError(BrokerError, code=56, retriable=True, refresh_metadata=True):
    """The broker could not read or write its disk, and has taken the log directory offline.
    Another replica takes over; look at the disk before you bring the broker back."""


class StorageExhausted(KafkaStorageError):
    """Something that the disk work needs has run out on the broker; nothing is lost, and its disk is in order.
    Try again; the broker's log says what it lacks."""


class TooManyOpenFiles(StorageExhausted):
    """The broker has as many files and connections open as the system lets it have.
    Try again; raise the limit of open files on the broker (ulimit -n, LimitNOFILE) or give it fewer partitions."""


class DiskFull(StorageExhausted):
    """There is no room left on the disk, so the broker takes no records there; what it has can still be read.
    Make room on the disk or shorten the topics' retention, and writing goes on by itself."""


class LogDirNotFound(BrokerError, code=57):
    """The broker has no such log directory. Use one of those in its log.dirs."""


class SaslAuthenticationFailed(BrokerError, AuthenticationFailed, code=58, invalid_configuration=True):
    """The broker did not accept the credentials. Check the user name, the password or token, and sasl.mechanism."""


class UnknownProducerId(BrokerError, code=59):
    """The broker has forgotten this producer, because all its records were deleted or it was silent for long.
    The producer takes a new epoch and goes on; with transactions, abort first."""


class ReassignmentInProgress(BrokerError, code=60):
    """Replicas of this partition are being moved. Wait until the reassignment is over, or cancel it."""


class DelegationTokenAuthDisabled(BrokerError, code=61):
    """The brokers do not issue delegation tokens. Set delegation.token.secret.key on all of them."""


class DelegationTokenNotFound(BrokerError, code=62):
    """The brokers do not know this delegation token. Check the token, or create a new one."""


class DelegationTokenOwnerMismatch(BrokerError, code=63):
    """Only the owner or a renewer may do that with a delegation token. Authenticate as one of them."""


class DelegationTokenRequestNotAllowed(BrokerError, code=64):
    """Delegation tokens cannot be handled over this connection.
    Use SASL or TLS with a client certificate, and do not authenticate with a token itself."""


class DelegationTokenAuthorizationFailed(BrokerError, AuthorizationFailed, code=65, invalid_configuration=True):
    """This principal may not see or handle the delegation token. Ask for an access rule on the token."""


class DelegationTokenExpired(BrokerError, code=66):
    """The delegation token has expired. Create a new one, and renew it before it runs out."""


class InvalidPrincipalType(BrokerError, code=67):
    """The principal is not of a type the brokers know. Write it as User:name."""


class NonEmptyGroup(BrokerError, code=68):
    """The group still has members. Stop them, or wait until their sessions run out, and try again."""


class GroupIdNotFound(BrokerError, code=69):
    """There is no group with this id. Check the spelling; a group without members and offsets is forgotten."""


class FetchSessionIdNotFound(BrokerError, code=70, retriable=True):
    """The broker has dropped this fetch session. The client opens a new one; no records are lost."""


class InvalidFetchSessionEpoch(BrokerError, code=71, retriable=True):
    """The steps of the fetch session got out of order. The client opens a new session; no records are lost."""


class ListenerNotFound(BrokerError, code=72, retriable=True, refresh_metadata=True):
    """The leader has no listener of the kind this client used to connect.
    Give all brokers the same listener names in advertised.listeners."""


class TopicDeletionDisabled(BrokerError, code=73):
    """The brokers are set not to delete topics. Set delete.topic.enable to true."""


class FencedLeaderEpoch(BrokerError, code=74, retriable=True, refresh_metadata=True):
    """The request names an older leader epoch than the broker's. The client refreshes its metadata and tries again."""


class UnknownLeaderEpoch(BrokerError, code=75, retriable=True):
    """The request names a newer leader epoch than the broker's. The broker is behind for a moment; try again."""


class UnsupportedCompressionType(BrokerError, code=76):
    """The batch names a compression codec that does not exist or is not allowed here.
    Choose none, gzip, snappy, lz4 or zstd that both sides support."""


class StaleBrokerEpoch(BrokerError, code=77):
    """The request belongs to an earlier life of the broker, before it registered again. It is ignored on purpose."""


class OffsetNotAvailable(BrokerError, code=78, retriable=True):
    """The new leader does not know the end of the partition for certain yet. Try again in a moment."""


class MemberIdRequired(BrokerError, code=79):
    """The coordinator has given the member an id to join with. The client joins again with it; nothing is wrong."""


class PreferredLeaderNotAvailable(BrokerError, code=80, retriable=True, refresh_metadata=True):
    """The first replica of the partition is not live or not in sync, so it cannot lead. Wait until it caught up."""


class GroupMaxSizeReached(BrokerError, code=81):
    """The group has as many members as the broker allows.
    Run fewer members, or raise group.max.size on the brokers."""


class FencedInstanceId(BrokerError, code=82, application_recoverable=True):
    """Another member with the same group.instance.id has joined. Give every member its own; stop one of the two."""


class EligibleLeadersNotAvailable(BrokerError, code=83, retriable=True, refresh_metadata=True):
    """No replica that may lead the partition is live. Bring a broker of its in-sync set back."""


class ElectionNotNeeded(BrokerError, code=84, retriable=True, refresh_metadata=True):
    """The partition already has the leader the election would give it. There is nothing to do."""


class NoReassignmentInProgress(BrokerError, code=85):
    """No reassignment of this partition is running. There is nothing to cancel."""


class GroupSubscribedToTopic(BrokerError, code=86):
    """The group is reading the topic, so its offsets cannot be deleted. Stop its members, or let them unsubscribe."""


class InvalidRecord(BrokerError, code=87, invalid_configuration=True):
    """The broker refuses a record because of what it contains.
    A compacted topic, for one, takes no record without a key; the detail names the record."""


class UnstableOffsetCommit(BrokerError, code=88, retriable=True):
    """Offsets of this group are part of a transaction that has not ended. Try again when it has."""


class ThrottlingQuotaExceeded(BrokerError, code=89, retriable=True):
    """The client changes topics faster than its quota allows. Wait for the throttle time, then try again."""


class ProducerFenced(BrokerError, code=90, application_recoverable=True):
    """Another producer with the same transactional.id has taken over. Close this one; only one of them may live."""


class ResourceNotFound(BrokerError, code=91):
    """What the request is about does not exist. Check the name and the type of the resource."""


class DuplicateResource(BrokerError, code=92):
    """The same thing is named twice in one request. Name it once."""


class UnacceptableCredential(BrokerError, code=93):
    """The new credential breaks the broker's rules. Use enough iterations and a non-empty user name and password."""


class InconsistentVoterSet(BrokerError, code=94):
    """The two sides disagree about who votes in the metadata quorum. Compare the controllers' quorum settings."""


class InvalidUpdateVersion(BrokerError, code=95):
    """The version or level that the change names is not possible now. Read the present state and decide again."""


class FeatureUpdateFailed(BrokerError, code=96):
    """The level of a feature could not be changed. See that all brokers support the level and the change is allowed."""


class PrincipalDeserializationFailure(BrokerError, code=97):
    """A forwarded request names a principal the receiving broker cannot read.
    Give all brokers the same principal.builder.class."""


class SnapshotNotFound(BrokerError, code=98):
    """The metadata snapshot is not there any more. The follower starts again with a newer one."""


class PositionOutOfRange(BrokerError, code=99):
    """The position lies outside the metadata snapshot. The follower starts the snapshot from the beginning."""


class UnknownTopicId(BrokerError, code=100, retriable=True, refresh_metadata=True):
    """The broker does not know this topic id: the topic was deleted, or is too new.
    The client refreshes its metadata; check whether the topic was created again under the same name."""


class DuplicateBrokerRegistration(BrokerError, code=101):
    """A live broker is registered under this id already. Give every broker its own node.id or broker.id."""


class BrokerIdNotRegistered(BrokerError, code=102):
    """No broker is registered under this id. Check the number, or start the broker first."""


class InconsistentTopicId(BrokerError, code=103, retriable=True, refresh_metadata=True):
    """The topic id in the log and in the request differ: the topic was deleted and created again.
    The client refreshes its metadata; offsets of the old topic mean nothing in the new one."""


class InconsistentClusterId(BrokerError, code=104):
    """The two sides belong to different clusters. Check the addresses, and cluster.id in meta.properties."""


class TransactionalIdNotFound(BrokerError, code=105):
    """The brokers know no transaction with this id. Check the spelling; an id that is unused for long is forgotten."""


class FetchSessionTopicIdError(BrokerError, code=106, retriable=True):
    """A fetch session mixes topic names and topic ids. The client opens a new session and uses one of the two."""


class IneligibleReplica(BrokerError, code=107):
    """A replica that is fenced or shutting down cannot join the in-sync set. It may join when its broker is back."""


class NewLeaderElected(BrokerError, code=108):
    """The change made the partition choose a new leader. The old leader waits for the controller's word."""


class OffsetMovedToTieredStorage(BrokerError, code=109):
    """The records at this offset are only in remote storage now. The follower starts where the local log begins."""


class FencedMemberEpoch(BrokerError, code=110):
    """The coordinator has given this member up and its partitions to others. It must let go of them and join again."""


class UnreleasedInstanceId(BrokerError, code=111):
    """Another live member uses this group.instance.id. Stop it, or wait until its session runs out."""


class UnsupportedAssignor(BrokerError, code=112):
    """The brokers do not have the server-side assignor this member asks for.
    Set group.remote.assignor to one they have, or leave it out."""


class StaleMemberEpoch(BrokerError, code=113):
    """The member's epoch is behind the group's. The client sends a heartbeat, learns the new epoch and tries again."""


class MismatchedEndpointType(BrokerError, code=114):
    """The request went to a controller but is for brokers, or the other way round.
    Use bootstrap.servers for brokers and bootstrap.controllers for controllers."""


class UnsupportedEndpointType(BrokerError, code=115):
    """This kind of endpoint cannot be asked for here. Connect to a broker instead."""


class UnknownControllerId(BrokerError, code=116):
    """No controller has this id. List the quorum to see which ones there are."""


class UnknownSubscriptionId(BrokerError, code=117):
    """The broker has changed which client metrics it wants. The client asks for the new subscription."""


class TelemetryTooLarge(BrokerError, code=118):
    """The client's metrics are larger than the broker accepts.
    Subscribe to fewer of them, or raise telemetry.max.bytes."""


class InvalidRegistration(BrokerError, code=119):
    """The controller refuses the broker's registration. Its versions, listeners and directories must suit it."""


class TransactionAbortable(BrokerError, code=120, aborts_transaction=True):
    """The transaction cannot go on. Abort it and start a new one; the producer stays usable."""


class InvalidRecordState(BrokerError, code=121):
    """The record is no longer with this share consumer: it was acknowledged before, or its lock ran out.
    Acknowledge sooner, or raise the record lock duration of the group."""


class ShareSessionNotFound(BrokerError, code=122, retriable=True):
    """The broker has dropped this share session. The client opens a new one; unacknowledged records come again."""


class InvalidShareSessionEpoch(BrokerError, code=123, retriable=True):
    """The steps of the share session got out of order. The client opens a new session."""


class FencedStateEpoch(BrokerError, code=124):
    """The share-group state was written by a newer leader of the partition. The older leader must give way."""


class InvalidVoterKey(BrokerError, code=125):
    """The voter's id and directory do not belong together. Compare them with meta.properties of that controller."""


class DuplicateVoter(BrokerError, code=126):
    """This voter is in the metadata quorum already. There is nothing to add."""


class VoterNotFound(BrokerError, code=127):
    """This voter is not in the metadata quorum. Describe the quorum to see who votes."""


class InvalidRegularExpression(BrokerError, code=128):
    """The subscription pattern cannot be read. The broker wants RE2 syntax; test the pattern there."""


class RebootstrapRequired(BrokerError, code=129):
    """What the client knows of the cluster has no use any more. It starts again from bootstrap.servers."""


class StreamsInvalidTopology(BrokerError, code=130):
    """The topology of the streams group is not possible. Correct its topics and subtopologies."""


class StreamsInvalidTopologyEpoch(BrokerError, code=131):
    """The epoch of the topology is not a valid one. Let it start at 0 and only grow."""


class StreamsTopologyFenced(BrokerError, code=132):
    """The member runs an older topology than its group. Deploy the newer topology on this member as well."""


class ShareSessionLimitReached(BrokerError, code=133, retriable=True):
    """The broker has as many share sessions as it allows.
    Try again later, run fewer share consumers, or raise the limit on the brokers."""


class UnknownErrorCode(UnknownServerError):
    """The broker answered with an error code that this version of Ottla does not know.
    The other side is probably newer; look the number up in Kafka's documentation, or upgrade Ottla."""

    def __init__(self, detail: str | None = None, *, code: int = -1) -> None:
        super().__init__(detail)
        self.code = code
        self.name = f"UNKNOWN_ERROR_CODE_{code}"
        self.detail = f"code {code}" if detail is None else f"code {code}, {detail}"


# --- the same errors, noticed by us ----------------------------------------------------------------------------------


class ConnectionClosed(NetworkException):
    """The connection closed while a request was waiting for its answer.
    The request may have taken effect; only retries that the broker can recognise are safe."""


class NotConnected(NetworkException):
    """There is no connection to that node, so the request was never sent.
    See that the address is right and the broker is up; sending it again is safe."""


class ConnectionRefused(NotConnected):
    """The machine is there and nothing listens at that address, so the request was never sent.
    The process has ended or has not begun, or the port is another one; sending it again is safe."""


class UnknownSetting(InvalidConfig):
    """There is no such setting."""


class InvalidSetting(InvalidConfig):
    """A setting cannot have this value."""


class InvalidSettings(InvalidSetting):
    """Several settings are not accepted."""

    refusals: tuple[InvalidConfig, ...] = ()
    """Each of them by itself."""

    @classmethod
    def of(cls, refusals: Sequence[InvalidConfig]) -> InvalidConfig:
        """One error for all of them, or the only one as it is; those inside others count by themselves, and once."""
        single = {(type(one), one.detail): one for refusal in refusals for one in each_refusal(refusal)}
        if len(single) == 1:
            return next(iter(single.values()))
        whole = cls(" ".join(map(str, single.values())))
        whole.refusals = tuple(single.values())
        return whole


def each_refusal(error: InvalidConfig) -> tuple[InvalidConfig, ...]:
    """What an error about settings says, each by itself."""
    return error.refusals if isinstance(error, InvalidSettings) else (error,)


# --- local errors: they have no code and never travel ----------------------------------------------------------------


class TlsHandshakeFailed(AuthenticationFailed):
    """No secure connection could be made. Check the certificates, their host names and dates, and the TLS versions."""


class MalformedMessage(OttlaError):
    """The bytes are not a message of the version they claim to be.
    The connection is closed, because nothing after them can be trusted."""


class Unwritable(OttlaError, ValueError):
    """The message cannot be written at this version.
    Change the named field, or choose a version that has room for it."""


class FrameTooLarge(MalformedMessage):
    """A frame announces more bytes than are allowed.
    Raise the limit if the size is honest; otherwise something that is not Kafka speaks on this port."""


class LimitReached(OttlaError):
    """A limit of this process is reached.
    Wait until something has ended, or raise the limit if the machine can carry it."""


class IllegalMove(OttlaError):
    """A state machine was asked for a move its table does not have.
    This is a fault in Ottla: please report it with the story that led here."""

    def __init__(self, detail: str | None = None, *, story: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.story = tuple(story)

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} Recently: {'; '.join(self.story)}." if self.story else text


# --- looking up ------------------------------------------------------------------------------------------------------

ERRORS: Final[Mapping[int, type[BrokerError] | None]] = MappingProxyType(_by_code)
"""Every code of the protocol; NONE (0) gives None."""

ERRORS_BY_NAME: Final[Mapping[str, type[BrokerError] | None]] = MappingProxyType(_by_name)
"""Every name of the protocol, as Kafka spells it; "NONE" gives None."""


def error_for_code(code: int) -> type[BrokerError]:
    """The class for a code; UnknownErrorCode when the table does not have it, ValueError for 0."""
    if code == NONE:
        raise ValueError("code 0 is NONE: the request succeeded and there is no error to look up")
    return ERRORS.get(code) or UnknownErrorCode


def broker_error(code: int, message: str | None = None) -> BrokerError:
    """An error ready to be raised or kept; a code the table does not have keeps its number."""
    error = error_for_code(code)
    return UnknownErrorCode(message, code=code) if error is UnknownErrorCode else error(message)


def raise_for_code(code: int, message: str | None = None) -> None:
    """Do nothing for 0, raise the error of any other code with the broker's message as its detail."""
    if code != NONE:
        raise broker_error(code, message)


def name_of_code(code: int) -> str:
    """Kafka's name of a code, for logs and tables; never fails."""
    if code == NONE:
        return "NONE"
    return broker_error(code).name
