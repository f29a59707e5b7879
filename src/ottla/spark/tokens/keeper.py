"""Asks for tokens and keeps them good, in the driver's own Python process: the only one that has the passwords.

    keeper = TokenKeeper(clusters, directory)
    keeper.start()            # asks for a token of every cluster and hands them out; raises when one is refused
    keeper.stop()             # ends the tokens

1. A thread renews and replaces tokens as keeping.py says, for as long as the directory of the job is there. What fails
   is told in the log and tried again; as long as the token is good, nobody notices.
2. A job that ends in order ends its tokens. Those of a driver that was killed end by themselves.
3. Nothing that is logged has a secret in it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.client.admin.admin import Admin
from ottla.client.admin.credentials import ScramMechanism
from ottla.clock import Clock, SystemClock
from ottla.errors import OttlaError
from ottla.spark.tokens.clusters import TokenCluster
from ottla.spark.tokens.handout import HandedToken, remove_tokens, write_tokens
from ottla.spark.tokens.keeping import Held, Step, next_step

log = logging.getLogger(__name__)

LOOK_AT_MOST_MS: Final = 60_000.0
LOOK_AT_LEAST_MS: Final = 100.0
ASK_LIMIT_S: Final = 30.0
END_LIMIT_S: Final = 5.0


class TokenKeeper:
    """See the module. `wait(seconds)` pauses and says whether it is time to stop."""

    def __init__(
        self,
        clusters: Sequence[TokenCluster],
        directory: Path,
        *,
        make_admin: Callable[[Mapping[str, object]], Any] = Admin,
        clock: Clock | None = None,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self.clusters = tuple(clusters)
        self.directory = directory
        self._make_admin = make_admin
        self._clock = clock or SystemClock()
        self._held: dict[str, Held] = {}
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._thread = threading.Thread(target=self._run, name="ottla-kafka-tokens", daemon=True)

    def start(self) -> None:
        for cluster in self.clusters:
            self._advance(cluster, Step.CREATE)
        self._hand_out()
        self._thread.start()

    def stop(self) -> None:
        """Ends the tokens too; stopping again does nothing."""
        if not self._stopped.is_set():
            self._stopped.set()
            if self._thread.is_alive():
                self._thread.join(END_LIMIT_S)
            remove_tokens(self.directory)
            self._end_tokens()

    # --- keeping them good ---

    def _run(self) -> None:
        while not self._wait(self._pause_ms() / 1000):
            try:
                self.check()
            except FileNotFoundError:
                log.info("the job is over, its tokens are kept no longer")
                return

    def check(self) -> None:
        """Do what is due now; FileNotFoundError when the job is over."""
        now_ms = self._clock.now_ms()
        due = [(each, next_step(self._held.get(each.name), now_ms)) for each in self.clusters]
        todo = [(cluster, step) for cluster, step in due if step is not Step.WAIT]
        for cluster, step in todo:
            try:
                self._advance(cluster, step)
            except OttlaError as error:
                log.warning("a token of the cluster %s could not be had, it is tried again: %s", cluster.name, error)
                self._held[cluster.name] = self._held[cluster.name].failed(now_ms)
        if todo:
            self._hand_out()

    def _advance(self, cluster: TokenCluster, step: Step) -> None:
        held = self._held.get(cluster.name)
        with self._make_admin(dict(cluster.asking)) as admin:
            if step is Step.RENEW and held is not None:
                expiry_ms = admin.renew_delegation_token(held.token.hmac, timeout=ASK_LIMIT_S)
                self._held[cluster.name] = held.renewed(expiry_ms, self._clock.now_ms())
                log.info("the token %s of the cluster %s was renewed", held.token.token_id, cluster.name)
            else:
                token = admin.create_delegation_token(timeout=ASK_LIMIT_S)
                self._held[cluster.name] = Held.begin(token, self._clock.now_ms())
                log.info("tasks log in at the cluster %s with the token %s", cluster.name, token.token_id)

    def _pause_ms(self) -> float:
        due_ms = min((each.due_ms for each in self._held.values()), default=0.0)
        return min(LOOK_AT_MOST_MS, max(LOOK_AT_LEAST_MS, due_ms - self._clock.now_ms()))

    # --- handing them out ---

    def _hand_out(self) -> None:
        write_tokens(self.directory, [self._handed(each) for each in self.clusters])

    def _handed(self, cluster: TokenCluster) -> HandedToken:
        mechanism = ScramMechanism[cluster.token_mechanism.replace("-", "_")]
        login = self._held[cluster.name].token.login_settings(mechanism)
        return HandedToken(
            cluster.name,
            cluster.pattern,
            cluster.security_protocol,
            login["sasl.mechanism"],
            login["sasl.jaas.config"],
        )

    def _end_tokens(self) -> None:
        for cluster in self.clusters:
            held = self._held.pop(cluster.name, None)
            if held is None:
                continue
            try:
                with self._make_admin(dict(cluster.asking)) as admin:
                    admin.expire_delegation_token(held.token.hmac, timeout=END_LIMIT_S)
            except OttlaError as error:
                log.info("the token %s is left to end by itself: %s", held.token.token_id, error)
