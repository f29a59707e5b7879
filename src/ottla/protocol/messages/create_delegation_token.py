"""CreateDelegationToken (key 38): make a delegation token.

What each version changed:

    1: lowest served.
    2: flexible.
    3: a token for somebody else; request gains owner_principal_type, owner_principal_name; response gains
        token_requester_principal_type, token_requester_principal_name.
"""

from ottla.protocol.schema import Bytes, Int16, Int32, Int64, Message, String, Struct, secret, since


class CreatableRenewers(Struct):
    principal_type: String
    principal_name: String


class CreateDelegationTokenRequest(Message, versions="1-3", flexible=2):
    owner_principal_type: String | None = since(3, default="")
    owner_principal_name: String | None = since(3, default="")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64


class CreateDelegationTokenResponse(Message, versions="1-3", flexible=2):
    error_code: Int16
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = since(3, default="")
    token_requester_principal_name: String = since(3, default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes = secret()
    throttle_time_ms: Int32 = 0
