"""Asks Apache Kafka 3.9's encoder of secrets (StoredSecrets.java beside this file).

`python -m tests.conformance.stored_secrets` writes what it encodes to tests/golden/secrets/.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.conformance.kafka_jars import find_jars

PROGRAM = Path(__file__).with_name("StoredSecrets.java")
GOLDEN = Path(__file__).parents[1] / "golden" / "secrets" / "kafka-3.9.2.jsonl"
CBC, GCM = "AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"


class Case(NamedTuple):
    """What is encoded, and how; no key factory leaves it to Kafka."""

    secret: str
    key_factory: str | None
    cipher: str
    key_bits: int
    iterations: int
    password: str


CASES = (
    Case("encoder-secret", None, CBC, 128, 4096, "keystore-password"),
    Case("encoder-secret", "PBKDF2WithHmacSHA512", CBC, 256, 1024, "x"),
    Case("encoder-secret", "PBKDF2WithHmacSHA1", CBC, 128, 1024, "sixteen letters!"),
    Case("sécret ☃", "PBKDF2WithHmacSHA256", CBC, 192, 2048, "pässwörd 😀"),
    Case("encoder-secret", None, GCM, 128, 1024, "a,b:c=d"),
    Case("encoder-secret", "PBKDF2WithHmacSHA384", GCM, 256, 1024, "long " * 500),
    Case("encoder-secret", None, CBC, 128, 1024, 'org.apache.Module required username="a" password="b";'),
)


def encoded_by_kafka(cases: Sequence[Case]) -> list[str]:
    lines = []
    for case in cases:
        factory = "-" if case.key_factory is None else _base64(case.key_factory)
        words = (_base64(case.secret), factory, _base64(case.cipher), str(case.key_bits), str(case.iterations))
        lines.append(" ".join(("encode", *words, _base64(case.password))))
    return _ask(lines)


def decoded_by_kafka(texts: Sequence[tuple[str, str, str]]) -> list[str]:
    """Of a secret, a cipher, and what was encoded with them."""
    answers = _ask([" ".join(("decode", *map(_base64, each))) for each in texts])
    return [base64.b64decode(each).decode() for each in answers]


def _ask(lines: Sequence[str]) -> list[str]:
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{find_jars('3.9')}/*", str(PROGRAM)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[: len(lines)]


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


if __name__ == "__main__":
    rows = [{**case._asdict(), "encoded": text} for case, text in zip(CASES, encoded_by_kafka(CASES), strict=True)]
    GOLDEN.write_text("".join(json.dumps(row) + "\n" for row in rows))
