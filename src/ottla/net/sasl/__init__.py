"""Who we are, said in the ways that Kafka knows: one file for each mechanism, and the exchange they share.

    authenticator.py   SaslHandshake, then SaslAuthenticate until the mechanism is done
    plain.py           user and password, for connections that are encrypted
    scram.py           proof of a password without telling it (RFC 5802), both halves
    oauthbearer.py     a token from somebody whom the broker trusts (RFC 7628)

Mechanisms are plain code: bytes in, bytes out; random numbers and tokens come in as arguments. Secrets are never in
a repr, a log or an error.
"""
