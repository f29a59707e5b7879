"""What Apache's tools print of an error: the broker's own words, else the default sentence of the code.

    message_of(error, "clicks")     Topic 'clicks' already exists.
    described(error)                org.apache.kafka.common.errors.TopicExistsException: Topic 'clicks' already exists.

1. Our client adds the name of a topic or group to an error without words; whoever asks says which names those are.
2. Only sentences that commands can meet are here; for the others ours is good enough.
3. Java's name of an error is that of Kafka's code in CamelCase with "Exception", but for CLASSES.
"""

from __future__ import annotations

from typing import Final

from ottla.errors import BrokerError, OttlaError

PACKAGE: Final = "org.apache.kafka.common.errors."
CLASSES: Final = {
    "UNKNOWN_SERVER_ERROR": "UnknownServerException",
    "REQUEST_TIMED_OUT": "TimeoutException",
    "INVALID_TOPIC_EXCEPTION": "InvalidTopicException",
    "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorizationException",
    "GROUP_AUTHORIZATION_FAILED": "GroupAuthorizationException",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorizationException",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "TransactionalIdAuthorizationException",
    "TOPIC_ALREADY_EXISTS": "TopicExistsException",
    "INVALID_CONFIG": "InvalidConfigurationException",
    "INVALID_PRODUCER_ID_MAPPING": "InvalidPidMappingException",
    "KAFKA_STORAGE_ERROR": "KafkaStorageException",
    "SASL_AUTHENTICATION_FAILED": "SaslAuthenticationException",
    "DELEGATION_TOKEN_AUTH_DISABLED": "DelegationTokenDisabledException",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "UnsupportedByAuthenticationException",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "DelegationTokenAuthorizationException",
    "NON_EMPTY_GROUP": "GroupNotEmptyException",
    "NETWORK_EXCEPTION": "NetworkException",
}
SENTENCES: Final = {
    "UNKNOWN_SERVER_ERROR": "The server experienced an unexpected error when processing the request.",
    "OFFSET_OUT_OF_RANGE": "The requested offset is not within the range of offsets maintained by the server.",
    "UNKNOWN_TOPIC_OR_PARTITION": "This server does not host this topic-partition.",
    "UNKNOWN_TOPIC_ID": "This server does not host this topic ID.",
    "REQUEST_TIMED_OUT": "The request timed out.",
    "COORDINATOR_NOT_AVAILABLE": "The coordinator is not available.",
    "INVALID_TOPIC_EXCEPTION": "The request attempted to perform an operation on an invalid topic.",
    "INVALID_GROUP_ID": "The group id is invalid.",
    "UNKNOWN_MEMBER_ID": "The coordinator is not aware of this member.",
    "TOPIC_AUTHORIZATION_FAILED": "Topic authorization failed.",
    "GROUP_AUTHORIZATION_FAILED": "Group authorization failed.",
    "CLUSTER_AUTHORIZATION_FAILED": "Cluster authorization failed.",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "Transactional Id authorization failed.",
    "UNSUPPORTED_VERSION": "The version of API is not supported.",
    "TOPIC_ALREADY_EXISTS": "Topic with this name already exists.",
    "INVALID_REPLICA_ASSIGNMENT": "Replica assignment is invalid.",
    "SECURITY_DISABLED": "Security features are disabled.",
    "LOG_DIR_NOT_FOUND": "The user-specified log directory is not found in the broker config.",
    "DELEGATION_TOKEN_AUTH_DISABLED": "Delegation Token feature is not enabled.",
    "DELEGATION_TOKEN_NOT_FOUND": "Delegation Token is not found on server.",
    "DELEGATION_TOKEN_OWNER_MISMATCH": "Specified Principal is not valid Owner/Renewer.",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "Delegation Token authorization failed.",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": (
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token "
        "authenticated channels."
    ),
    "NON_EMPTY_GROUP": "The group is not empty.",
    "GROUP_ID_NOT_FOUND": "The group id does not exist.",
    "GROUP_SUBSCRIBED_TO_TOPIC": (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
    "PREFERRED_LEADER_NOT_AVAILABLE": "The preferred leader was not available.",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": "Eligible topic partition leaders are not available.",
    "ELECTION_NOT_NEEDED": "Leader election not needed for topic partition.",
    "NO_REASSIGNMENT_IN_PROGRESS": "No partition reassignment is in progress.",
    "REASSIGNMENT_IN_PROGRESS": "A partition reassignment is in progress.",
    "TRANSACTIONAL_ID_NOT_FOUND": "The transactionalId could not be found.",
    "INVALID_UPDATE_VERSION": "The given update version was invalid.",
    "RESOURCE_NOT_FOUND": "A request illegally referred to a resource that does not exist.",
    "INVALID_REQUEST": (
        "This most likely occurs because of a request being malformed by the client library or the message was sent "
        "to an incompatible broker. See the broker logs for more details."
    ),
}


def message_of(error: BaseException, *names: str) -> str:
    """What Java's getMessage() says; `names` are what our client may have put in the place of missing words."""
    if isinstance(error, BrokerError):
        if error.detail and error.detail not in names:
            return error.detail
        return SENTENCES.get(error.name, error.sentence)
    if isinstance(error, OttlaError):
        return error.detail or error.sentence
    if isinstance(error, TimeoutError) and not isinstance(error.__cause__, BrokerError):
        return f"Timed out waiting for a node assignment. {error}"
    return str(error)


def class_of(error: BaseException) -> str:
    """Java's name of the error."""
    if isinstance(error, BrokerError):
        camel = "".join(part.capitalize() for part in error.name.split("_")) + "Exception"
        return PACKAGE + CLASSES.get(error.name, camel)
    if isinstance(error, TimeoutError):
        return PACKAGE + "TimeoutException"
    return "org.apache.kafka.common.KafkaException"


def described(error: BaseException, *names: str) -> str:
    """Class and message, as Java prints an exception."""
    if isinstance(error, BrokerError | TimeoutError | OttlaError):
        return f"{class_of(error)}: {message_of(error, *names)}"
    return str(error)


def first_failure(error: BaseException) -> BaseException:
    """Of several things that failed, the first: where Java waits for all, it hears of one."""
    from ottla.client.admin.plans import PartlyFailed

    return next(iter(error.failed.values())) if isinstance(error, PartlyFailed) else error
