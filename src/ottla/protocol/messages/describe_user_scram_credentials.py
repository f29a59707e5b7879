"""DescribeUserScramCredentials (key 50): which users have SCRAM credentials; never the credentials."""

from ottla.protocol.schema import Int8, Int16, Int32, Message, String, Struct


class UserName(Struct):
    name: String


class DescribeUserScramCredentialsRequest(Message, versions="0", flexible=0):
    users: list[UserName] | None


class CredentialInfo(Struct):
    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16
    error_message: String | None = None
    credential_infos: list[CredentialInfo]


class DescribeUserScramCredentialsResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    results: list[DescribeUserScramCredentialsResult]
