"""Nobody learns from the time of an answer whether a user exists: Welch's t over many logins, known and unknown mixed.

The short sample beside it counts the work instead of measuring it (tests/unit/net/sasl/test_scram_server.py).
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable

import pytest
from tests.unit.broker.security.logins import NOW, SCRAM, Rules, handshake, token, told

from ottla.broker.security.login import Login
from ottla.broker.security.scram_users import ScramUsers
from ottla.cluster.changes import SetScramCredential, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import ScramCredential, ScramKey
from ottla.net.sasl.plain import PlainServer, PlainUsers
from ottla.net.sasl.scram import ScramClient, scram_keys
from ottla.net.sasl.scram_server import ScramServer
from ottla.net.sasl.server import ServerMechanism

SAMPLES = 10_000
LIMIT = 4.5  # what the leakage tests of cryptographers take for "no difference seen"
KNOWN = [f"user-{number:03}" for number in range(100)]
UNKNOWN = [f"user-{number:03}" for number in range(500, 600)]


def image() -> ClusterImage:
    keys = scram_keys(SCRAM, "right", salt=b"0123456789abcdef", iterations=4096)
    kept = ScramCredential(keys.iterations, keys.salt, keys.stored_key, keys.server_key)
    return apply_all(ClusterImage("cluster"), [SetScramCredential(ScramKey(user, 1), kept) for user in KNOWN])


class TimedRules(Rules):
    """The users as a broker has them."""

    def __init__(self) -> None:
        super().__init__()
        truth = image()
        self.users = ScramUsers(lambda: truth)
        self.plain = PlainUsers(dict.fromkeys(KNOWN, "right"), key=b"key")

    def server(self, mechanism: str) -> ServerMechanism:
        if mechanism == "PLAIN":
            return PlainServer(self.plain)
        return ScramServer(
            mechanism, self.users.credential_of, decoys=self.users.decoys(mechanism), random_bytes=random.randbytes
        )


def plain_login(rules: Rules, user: str) -> float:
    login = Login(rules)
    login.received(handshake("PLAIN"), NOW)
    message = token(f"\0{user}\0wrong".encode())
    began = time.perf_counter_ns()
    login.received(message, NOW)
    return time.perf_counter_ns() - began


def scram_login(rules: Rules, user: str) -> float:
    """The password is never asked for: the proof is wrong, whoever it is."""
    login = Login(rules)
    login.received(handshake(SCRAM), NOW)
    first = token(ScramClient(SCRAM, user, "x", random_bytes=lambda count: b"c" * count).first())
    began = time.perf_counter_ns()
    answer = login.received(first, NOW)
    spent = time.perf_counter_ns() - began
    nonce = bytes(told(answer).auth_bytes).split(b",")[0]
    final = token(b"c=biws," + nonce + b",p=" + b"A" * 43 + b"=")
    began = time.perf_counter_ns()
    login.received(final, NOW)
    return spent + time.perf_counter_ns() - began


def welch(left: list[float], right: list[float]) -> float:
    spread = statistics.variance(left) / len(left) + statistics.variance(right) / len(right)
    return (statistics.fmean(left) - statistics.fmean(right)) / math.sqrt(spread)


def measured(login: Callable[[Rules, str], float], samples: int) -> float:
    rules, times = TimedRules(), {True: list[float](), False: list[float]()}
    kinds = [True] * samples + [False] * samples
    random.shuffle(kinds)
    for is_known in kinds:
        times[is_known].append(login(rules, random.choice(KNOWN if is_known else UNKNOWN)))
    limit = sorted(times[True] + times[False])[int(samples * 1.8)]  # the slowest tenth is the machine's, not ours
    return welch(*([each for each in times[is_known] if each <= limit] for is_known in (True, False)))


@pytest.mark.long
@pytest.mark.parametrize("login", [plain_login, scram_login])
def test_the_time_of_a_login_does_not_tell_whether_the_user_exists(login: Callable[[Rules, str], float]) -> None:
    """Two of three tries: a machine with other work may shift one."""
    seen = [abs(measured(login, SAMPLES)) for _ in range(3)]
    assert sorted(seen)[1] < LIMIT, seen
