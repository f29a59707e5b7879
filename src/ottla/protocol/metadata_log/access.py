"""Access rules, SCRAM credentials and delegation tokens in the metadata log. Secrets are never shown."""

from ottla.protocol.schema import Bytes, Int8, Int32, Int64, Message, String, Uuid, secret


class AccessControlEntryRecord(Message, versions="0", flexible=0, record_type=18):
    """Every rule has an id of its own, by which it is removed."""

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class RemoveAccessControlEntryRecord(Message, versions="0", flexible=0, record_type=19):
    id: Uuid


class UserScramCredentialRecord(Message, versions="0", flexible=0, record_type=11):
    """`mechanism` 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    name: String
    mechanism: Int8
    salt: Bytes = secret()
    stored_key: Bytes = secret()
    server_key: Bytes = secret()
    iterations: Int32


class RemoveUserScramCredentialRecord(Message, versions="0", flexible=0, record_type=22):
    name: String
    mechanism: Int8


class DelegationTokenRecord(Message, versions="0", flexible=0, record_type=10):
    """What is the token's password stands nowhere: brokers compute it of the id and of their secret key."""

    owner: String
    requester: String
    renewers: list[String]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: String


class RemoveDelegationTokenRecord(Message, versions="0", flexible=0, record_type=26):
    token_id: String
