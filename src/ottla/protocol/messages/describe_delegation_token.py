"""DescribeDelegationToken (key 41): list delegation tokens.

What each version changed:

    1: lowest served.
    2: flexible.
    3: tells who asked for the token; response gains token_requester_principal_type, token_requester_principal_name.
"""

from ottla.protocol.schema import Bytes, Int16, Int32, Int64, Message, String, Struct, secret, since


class DescribeDelegationTokenOwner(Struct):
    principal_type: String
    principal_name: String


class DescribeDelegationTokenRequest(Message, versions="1-3", flexible=2):
    owners: list[DescribeDelegationTokenOwner] | None


class DescribedDelegationTokenRenewer(Struct):
    principal_type: String
    principal_name: String


class DescribedDelegationToken(Struct):
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = since(3, default="")
    token_requester_principal_name: String = since(3, default="")
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes = secret()
    renewers: list[DescribedDelegationTokenRenewer]


class DescribeDelegationTokenResponse(Message, versions="1-3", flexible=2):
    error_code: Int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
