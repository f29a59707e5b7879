"""Replication between this broker and the others: what is followed, who is in sync, what the controller is told."""

from __future__ import annotations

from ottla.broker.replication.manager import Moves


class Replication:
    def take(self, moves: Moves) -> None:
        raise NotImplementedError
