"""Who somebody is, said in the ways that Kafka knows: the client's and the server's half of each mechanism.

    authenticator.py   the client: SaslHandshake, then SaslAuthenticate until the mechanism is done
    server.py          the server: what every mechanism's half looks like; the exchange is broker/security/login.py

    plain.py                             user and password, for connections that are encrypted
    scram.py, scram_server.py            proof of a password without telling it (RFC 5802)
    oauthbearer.py, oauthbearer_server.py   a token from somebody whom the broker trusts (RFC 7628)
    gssapi_client.py, gssapi_server.py   a ticket of Kerberos (RFC 4752)

    signed_tokens.py, token_claims.py    which tokens are good
    token_login.py, oidc.py, provider.py where our own tokens come from
    kerberos_login.py, kerberos_names.py where our own tickets come from; the user that a ticket's name means
    jaas.py                              users and secrets as Java writes them

Mechanisms are plain code: bytes in, bytes out; random numbers and tokens come in as arguments. Secrets are never in
a repr, a log or an error.
"""
