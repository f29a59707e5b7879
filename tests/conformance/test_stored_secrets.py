"""Apache Kafka 3.9 decodes the secrets that we encode for ZooKeeper (what it encodes is in tests/golden/secrets)."""

from __future__ import annotations

import pytest
from tests.conformance.kafka_jars import JarsMissing, find_jars
from tests.conformance.stored_secrets import CASES, decoded_by_kafka, encoded_by_kafka

from ottla.broker.security.password_encoder import PasswordEncoder

pytestmark = pytest.mark.long


def test_what_either_side_encodes_the_other_decodes() -> None:
    try:
        find_jars("3.9")
    except JarsMissing as reason:
        pytest.skip(str(reason))
    ours = [
        PasswordEncoder(
            case.secret,
            cipher=case.cipher,
            key_factory=case.key_factory,
            key_bits=case.key_bits,
            iterations=case.iterations,
        )
        for case in CASES
    ]
    texts = [
        (case.secret, case.cipher, encoder.encode(case.password)) for case, encoder in zip(CASES, ours, strict=True)
    ]
    passwords = [case.password for case in CASES]
    assert decoded_by_kafka(texts) == passwords
    theirs = encoded_by_kafka(CASES)
    assert [encoder.decode(text) for encoder, text in zip(ours, theirs, strict=True)] == passwords
