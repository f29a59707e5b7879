"""A cluster is upgraded under load: one node after the other is stopped and comes back as the next version, and when
all of them have, an administrator raises metadata.version.

Nodes begin as a version that does not know the newest metadata.version (simulation/controllers.py). It ends when the
cluster has the newest level.
"""

from __future__ import annotations

from typing import Final

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.cluster import FeatureUpdate
from ottla.cluster.features import FEATURES
from ottla.cluster.model import METADATA_VERSION, FeatureRange
from ottla.simulation.controllers import NEW_LEVEL
from ottla.simulation.workloads.base import ERRORS, Workload, describe

CALL_S: Final = 15.0
LOOK_S: Final = 0.1
READY_S: Final = 20.0


class Upgrade(Workload):
    """See the module."""

    async def run(self) -> None:
        nodes = list(self.cluster.nodes)
        for node in self.random.sample(nodes, len(nodes)):
            await self.pause(self.tempo.move_s)
            await self._replace(node, FEATURES)
        async with self.admin() as admin:
            while not await self._raise(admin):
                await self.pause(self.paced_s(0.5))

    async def _replace(self, node: int, features: tuple[FeatureRange, ...]) -> None:
        """Stop it in order and start the other version; wait a while until it serves."""
        replacing = self.history.invoke(self.name, "replace", node=node)
        self.cluster.nodes[node].features = features  # it is installed: whoever starts the node starts this
        await self.cluster.stop(node)
        self.cluster.restart(node)
        for _ in range(int(READY_S / LOOK_S)):
            if self.cluster.nodes[node].server is not None:
                break
            await self.pause(LOOK_S)
        replacing.ok()

    async def _raise(self, admin: AsyncAdmin) -> bool:
        raising = self.history.invoke(self.name, "raise", level=NEW_LEVEL)
        try:
            await admin.update_features({METADATA_VERSION: FeatureUpdate(NEW_LEVEL)}, timeout=self.paced_s(CALL_S))
        except ERRORS as error:
            raising.info(describe(error))
            return False
        raising.ok()
        return True
