"""aiokafka.abc: what listeners and token providers derive from."""

from __future__ import annotations

import abc
from typing import Any


class ConsumerRebalanceListener(abc.ABC):
    """Hears of partitions that come and go; its methods may be coroutines."""

    @abc.abstractmethod
    def on_partitions_revoked(self, revoked: Any) -> Any: ...

    @abc.abstractmethod
    def on_partitions_assigned(self, assigned: Any) -> Any: ...


class AbstractTokenProvider(abc.ABC):
    """Gives a token for SASL/OAUTHBEARER."""

    @abc.abstractmethod
    async def token(self) -> str: ...

    def extensions(self) -> dict[str, str]:
        """What the broker hears besides the token."""
        return {}
