"""A client that wants to log in where nobody has to is told so at once, and does not try until its time is over."""

import pytest

from ottla.errors import IllegalSaslState
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest


@pytest.mark.parametrize("version", [0, 1])
def test_a_handshake_without_need_is_an_illegal_state(broker, version):
    answer = broker.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (answer.error_code, answer.mechanisms) == (IllegalSaslState.code, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_token_without_need_is_an_illegal_state(broker, version):
    answer = broker.ask(SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), version)
    assert (answer.error_code, answer.auth_bytes) == (IllegalSaslState.code, b"")
    assert answer.error_message
