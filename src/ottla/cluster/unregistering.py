"""UnregisterBroker: forget a broker that will not come back.

1. In a cluster a broker is registered for as long as it lives: its registration is bound to its session, and ends with
   it. There is nothing left to forget of one that is gone (BROKER_ID_NOT_REGISTERED).
2. A broker that lives would register again at once; it must be stopped instead (INVALID_REQUEST).
3. The store of a broker on its own has everybody who ever opened it: one that was started with another broker.id has
   left its old id there, and that can be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.cluster.changes import UnregisterBroker
from ottla.cluster.image import ClusterImage
from ottla.cluster.plan import Plan
from ottla.errors import BrokerIdNotRegistered, InvalidRequest


def unregister_broker(image: ClusterImage, broker_id: int, is_alive: Callable[[int], bool]) -> Plan[None]:
    if broker_id not in image.brokers:
        raise BrokerIdNotRegistered(f"broker {broker_id} is not registered")
    if is_alive(broker_id):
        raise InvalidRequest(f"broker {broker_id} is alive and would register again; stop it instead")
    return Plan((UnregisterBroker(broker_id),), [])
