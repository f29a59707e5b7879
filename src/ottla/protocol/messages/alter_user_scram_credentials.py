"""AlterUserScramCredentials (key 51): set and remove SCRAM credentials."""

from ottla.protocol.schema import Bytes, Int8, Int16, Int32, Message, String, Struct, secret


class ScramCredentialDeletion(Struct):
    name: String
    mechanism: Int8


class ScramCredentialUpsertion(Struct):
    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes = secret()
    salted_password: Bytes = secret()


class AlterUserScramCredentialsRequest(Message, versions="0", flexible=0):
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16
    error_message: String | None = None


class AlterUserScramCredentialsResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult]
