"""The server of SCRAM: the vectors of the RFCs, another library as its client, and what may not be told apart."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Any, Protocol

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st

from ottla.net.sasl import scram_server as module
from ottla.net.sasl.scram import ScramClient, ScramKeys, scram_keys
from ottla.net.sasl.scram_server import Credential, Decoys, ScramServer, Shape
from ottla.net.sasl.server import Identity, LoginRefused

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


def server(
    mechanism: str = "SCRAM-SHA-256",
    *,
    user: str = "user",
    password: str = "pencil",
    salt: bytes = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="),
    iterations: int = 4096,
    nonce: bytes = b"n" * 24,
    decoys: Decoys | None = None,
) -> ScramServer:
    kept = Credential(scram_keys(mechanism, password, salt=salt, iterations=iterations), user)
    return ScramServer(
        mechanism,
        lambda name, _, is_token: kept if name == user and not is_token else None,
        decoys=decoys or Decoys(b"secret"),
        random_bytes=lambda _: nonce,
    )


# --- vectors -------------------------------------------------------------------------------------------------------


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its nonce of the server is no base64, which is what ours always is; so it is put in its place."""
    monkeypatch.setattr(module.base64, "b64encode", _as_in_the_rfc(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"))
    login = server(nonce=b"nonce")
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert login.answered(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    said = login.answered(b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert said == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert login.identity == Identity("user")


def test_the_example_of_rfc_5802(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is SHA-1, which is not offered; the exchange is the same."""
    monkeypatch.setitem(module.HASHES, "SCRAM-SHA-1", "sha1")
    monkeypatch.setattr(module.base64, "b64encode", _as_in_the_rfc(b"3rfcNHYJY1ZVvWVs7j"))
    login = server("SCRAM-SHA-1", salt=base64.b64decode("QSXCR+Q6sek8bf92"), nonce=b"nonce")
    nonce = b"fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j"
    assert login.answered(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL") == b"r=" + nonce + b",s=QSXCR+Q6sek8bf92,i=4096"
    said = login.answered(b"c=biws,r=" + nonce + b",p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=")
    assert said == b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="


def _as_in_the_rfc(nonce: bytes) -> Callable[[bytes], bytes]:
    encode = base64.b64encode
    return lambda content: nonce if content == b"nonce" else encode(content)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@given(
    user=st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1),
    password=st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1),
    is_right=st.booleans(),
)
def test_another_library_as_the_client(mechanism: str, user: str, password: str, is_right: bool) -> None:
    client = scramp.ScramClient([mechanism], user, password if is_right else password + "!")
    login = server(mechanism, user=user, password=password)
    client.set_server_first(login.answered(client.get_client_first().encode()).decode())
    final = client.get_client_final().encode()
    if is_right:
        client.set_server_final(login.answered(final).decode())
        assert login.identity == Identity(user)
    else:
        with pytest.raises(LoginRefused):
            login.answered(final)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_another_library_as_the_server(mechanism: str) -> None:
    made = scramp.ScramMechanism(mechanism)
    kept = made.make_auth_info("pencil", iteration_count=4096)
    theirs = made.make_server(lambda _: kept)
    client = ScramClient(mechanism, "user", "pencil", random_bytes=lambda count: b"c" * count)
    theirs.set_client_first(client.first().decode())
    final = client.answered(theirs.get_server_first().encode())
    assert final is not None
    theirs.set_client_final(final.decode())
    assert client.answered(theirs.get_server_final().encode()) is None


# --- what is refused -----------------------------------------------------------------------------------------------


class Answers(Protocol):
    """A server, ours or another."""

    def answered(self, message: bytes) -> bytes: ...


def final_of(
    login: Answers, *, header: str = "n,,", password: str = "pencil", user: str = "user", repeated: str = ""
) -> str:
    """The right last message, made by hand; `header` is how the first message begins. `repeated` stands before the
    nonce, and is part of what is proved."""
    bare = f"n={user},r=abc"
    first = login.answered(f"{header}{bare}".encode()).decode()
    nonce, salt, count = (part[2:] for part in first.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(count))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    without = f"c={base64.b64encode(header.encode()).decode()},r={repeated}{nonce}"
    signature = hmac.digest(hashlib.sha256(client_key).digest(), f"{bare},{first},{without}".encode(), "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{without},p={base64.b64encode(proof).decode()}"


@pytest.mark.parametrize("header", ["n,,", "y,,", "n,a=user,", "y,a=user,"])
def test_the_beginnings_that_are_fine(header: str) -> None:
    login = server()
    assert login.answered(final_of(login, header=header).encode()).startswith(b"v=")


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("p=tls-unique,,n=user,r=abc", "channel-binding-not-supported"),
        ("n,,m=x,n=user,r=abc", "extensions-not-supported"),
        ("n,a=admin,n=user,r=abc", "other-error"),
        ("n,,n=,r=abc", "invalid-encoding"),
        ("n,,n=user,r=", "invalid-encoding"),
        ("n,,r=abc,n=user", "invalid-encoding"),
        ("n,,n=user,n=admin,r=abc", "invalid-encoding"),
        ("n,,n=us=er,r=abc", "invalid-encoding"),
        ("x,,n=user,r=abc", "invalid-encoding"),
        ("n,,n=user,r=abc,", "invalid-encoding"),
        ("", "invalid-encoding"),
    ],
)
def test_a_first_message_that_is_refused(message: str, error: str) -> None:
    with pytest.raises(LoginRefused) as refused:
        server().answered(message.encode())
    assert refused.value.last_bytes == f"e={error}".encode()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda text: text.replace("r=abc", "r=abd", 1), "other-error"),
        (lambda text: text.replace(",p=", "x,p=", 1), "other-error"),
        (lambda text: text.replace("r=abc", "r=", 1), "other-error"),
        (lambda text: text.replace("c=biws", "c=eSws", 1), "channel-bindings-dont-match"),
        (lambda text: text.replace("c=biws", "c=bixhPWFkbWluLA==", 1), "channel-bindings-dont-match"),
        (lambda text: text.replace("c=biws,", "", 1), "invalid-encoding"),
        (lambda text: text.rpartition(",p=")[0], "invalid-encoding"),
        (lambda text: text.rpartition(",p=")[0] + ",p=AAAA", "invalid-proof"),
        (lambda text: text.rpartition(",p=")[0] + ",p=A", "invalid-encoding"),
        (lambda text: text.rpartition(",p=")[0] + ",p=" + base64.b64encode(bytes(32)).decode(), "invalid-proof"),
    ],
)
def test_a_last_message_that_is_refused(change: Callable[[str], str], error: str) -> None:
    login = server()
    with pytest.raises(LoginRefused) as refused:
        login.answered(change(final_of(login)).encode())
    assert refused.value.last_bytes == f"e={error}".encode()
    assert login.identity is None


def test_a_message_of_another_login_does_not_count() -> None:
    first, second = server(nonce=b"1" * 24), server(nonce=b"2" * 24)
    final = final_of(first)
    final_of(second)
    with pytest.raises(LoginRefused, match="nonce"):
        second.answered(final.encode())


def test_the_nonce_of_an_old_librdkafka_is_refused_and_explained() -> None:
    """It repeats its own half, and Kafka 4 refuses that. Nothing is told to the client but that it failed."""
    login = server()
    final = final_of(login, repeated="abc")
    with pytest.raises(LoginRefused, match=r"librdkafka .* before 2\.6\.1") as refused:
        login.answered(final.encode())
    assert refused.value.last_bytes == b"e=other-error"
    assert login.identity is None


def test_a_credential_with_too_few_iterations_lets_nobody_in() -> None:
    with pytest.raises(LoginRefused, match="too few"):
        server(iterations=4095).answered(b"n,,n=user,r=abc")


def test_a_message_after_the_end_is_refused() -> None:
    login = server()
    login.answered(final_of(login).encode())
    with pytest.raises(LoginRefused):
        login.answered(b"n,,n=admin,r=abc")
    assert login.identity == Identity("user")


def test_a_token_is_asked_for_as_a_token_and_logs_its_owner_in() -> None:
    keys = scram_keys("SCRAM-SHA-256", "hmac", salt=b"salt", iterations=4096)

    def credential_of(user: str, mechanism: str, is_token: bool) -> Credential | None:
        return Credential(keys, "owner", 99.0) if (user, is_token) == ("token-id", True) else None

    client = ScramClient("SCRAM-SHA-256", "token-id", "hmac", random_bytes=lambda count: b"c" * count, token=True)
    login = ScramServer("SCRAM-SHA-256", credential_of, decoys=Decoys(b"s"), random_bytes=lambda count: b"s" * count)
    final = client.answered(login.answered(client.first()))
    assert final is not None
    assert client.answered(login.answered(final)) is None
    assert login.identity == Identity("owner", by_token=True, expires_ms=99.0)


# --- an unknown user and a wrong password --------------------------------------------------------------------------


def refusal(user: str, password: str) -> LoginRefused:
    login = server()
    final = final_of(login, user=user, password=password)
    with pytest.raises(LoginRefused) as refused:
        login.answered(final.encode())
    return refused.value


def test_an_unknown_user_and_a_wrong_password_get_the_same_answer_after_the_same_steps() -> None:
    unknown, wrong = refusal("nobody", "pencil"), refusal("user", "wrong")
    assert (unknown.answer_text, unknown.last_bytes) == (wrong.answer_text, wrong.last_bytes)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_unknown_user_costs_the_same_work_as_a_wrong_password(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes time is counted: a clock would be fooled by a busy machine."""
    counted: list[tuple[str, int, int]] = []
    digest, compare, new = hmac.digest, hmac.compare_digest, hashlib.new

    def counted_digest(key: Any, message: Any, name: Any) -> bytes:
        counted.append(("digest", len(key), len(message)))
        return digest(key, message, name)

    def counted_compare(left: Any, right: Any) -> bool:
        counted.append(("compare", len(left), len(right)))
        return compare(left, right)

    def counted_new(name: str, content: bytes = b"") -> Any:
        counted.append(("hash", 0, len(content)))
        return new(name, content)

    def work(user: str) -> list[tuple[str, int, int]]:
        login = server(mechanism, user="known-1", decoys=Decoys(b"s", [Shape(4096, 16)]))
        client = ScramClient(mechanism, user, "wrong", random_bytes=lambda count: b"c" * count)
        first, answers = client.first(), []
        for name, replacement in (("digest", counted_digest), ("compare_digest", counted_compare)):
            monkeypatch.setattr(module.hmac, name, replacement)
        monkeypatch.setattr(module.hashlib, "new", counted_new)
        counted.clear()
        answers.append(login.answered(first))
        before = list(counted)
        monkeypatch.undo()
        final = client.answered(answers[0])
        assert final is not None
        for name, replacement in (("digest", counted_digest), ("compare_digest", counted_compare)):
            monkeypatch.setattr(module.hmac, name, replacement)
        monkeypatch.setattr(module.hashlib, "new", counted_new)
        counted.clear()
        with pytest.raises(LoginRefused):
            login.answered(final)
        after = list(counted)
        monkeypatch.undo()
        return [*before, ("step", 0, 0), *after]

    assert work("known-1") == work("nobody1")


def test_a_decoy_is_always_the_same_and_looks_like_the_others() -> None:
    java = b"1a2b3c4d5e6f7g8h9i0j1k2l3m"
    shapes = [Shape.of(java, 8192), Shape.of(java[::-1], 8192), Shape.of(bytes(range(200, 216)), 4096)]
    decoys = Decoys(b"secret", shapes)
    kept: ScramKeys = decoys.keys_of("nobody", "SCRAM-SHA-256")
    assert kept == Decoys(b"secret", shapes).keys_of("nobody", "SCRAM-SHA-256")
    assert Shape.of(kept.salt, kept.iterations) == Shape(8192, 26, True)
    assert kept.salt != decoys.keys_of("nobody2", "SCRAM-SHA-256").salt
    assert kept.salt != decoys.keys_of("nobody", "SCRAM-SHA-512").salt
    assert kept.salt != Decoys(b"other", shapes).keys_of("nobody", "SCRAM-SHA-256").salt


def test_without_users_a_decoy_is_an_ordinary_credential() -> None:
    kept = Decoys(b"secret").keys_of("nobody", "SCRAM-SHA-512")
    assert (kept.iterations, len(kept.salt), len(kept.stored_key)) == (4096, 16, 64)
