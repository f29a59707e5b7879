"""The settings of each of several brokers on one machine, made from the settings of all; no processes, no files.

1. Ports: broker i has every port of the first one plus i steps; a step is the smallest with which none meets another
   (1 for one listener, 2 for 9092 and 9093). Port 0 stays 0: any free one.
2. Directories: log.dirs=/data becomes /data/broker.0, /data/broker.1, ... (layout.py).
3. Ids count from node.id or broker.id, or from 0; with ZooKeeper and without one each gets a free one.
4. All are in one rack, the machine, unless broker.rack says otherwise: so copies go to other machines where there are
   some. `--racks a,b,c` gives each its own, to try out on one machine what is done on several.
5. Without ZooKeeper the internal topics have as many copies as there are brokers, three at most: a group goes on when
   one process ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.brokers.layout import directories_of
from ottla.cli.brokers.quorum import Quorum, common_settings, own_settings
from ottla.cli.output import Failure, counted

if TYPE_CHECKING:
    from ottla.broker.settings import BrokerSettings, Endpoint

TOGETHER: Final = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""No network is between them: who is silent for so long has ended."""
PORT_LIMIT: Final = 65_535
COPIES_LIMIT: Final = 3
_OF_EACH: Final = (
    "broker.id",
    "node.id",
    "log.dir",
    "log.dirs",
    "listeners",
    "advertised.listeners",
    "ottla.admin.listener",
    "ottla.schema.registry.listener",
)


def check_racks(racks: Sequence[str], brokers: int) -> None:
    """A rack for each broker, in the order of their ids."""
    if len(racks) != brokers or not all(racks):
        raise Failure(
            f"--racks names {len(racks)} for {counted(brokers, 'broker')}; give one name for each, as in "
            f"--racks {','.join('abcdefgh'[: min(brokers, 8)])}"
        )


def settings_of_each(
    settings: BrokerSettings, brokers: int, *, host: str, quorum: Quorum | None, racks: Sequence[str] = ()
) -> list[dict[str, str]]:
    """The settings of every broker, as texts. `quorum` has the controllers among them; there is none with ZooKeeper.
    `racks` are those of the brokers, one after the other, if they are not in one."""
    common = {name: str(settings.written_value(name)) for name in settings.configured_names() if name not in _OF_EACH}
    common.setdefault("broker.rack", host)
    if quorum is not None:
        common = {**internal_copies(brokers), **TOGETHER, **common}
        common |= common_settings(settings, quorum, settings.wanted_id or 0)
    step = port_step([each.port for each in settings.endpoints], brokers)
    each = [{**common, **_own(settings, slot, step, quorum)} for slot in range(brokers)]
    for one, rack in zip(each, racks, strict=False):
        one["broker.rack"] = rack
    return each


def _own(settings: BrokerSettings, slot: int, step: int, quorum: Quorum | None) -> dict[str, str]:
    own = {
        "log.dirs": ",".join(str(each) for each in directories_of(settings.data_directories, slot)),
        "listeners": _shifted(settings.endpoints, slot * step),
        "ottla.admin.listener": _http(settings.admin_address, slot),
        "ottla.schema.registry.listener": _http(settings.schema_registry_address, slot),
    }
    if "advertised.listeners" in settings.configured_names():
        own["advertised.listeners"] = _shifted(settings.advertised_endpoints, slot * step)
    if quorum is not None:
        own |= {"node.id": str((settings.wanted_id or 0) + slot), **own_settings(quorum, slot, own["listeners"])}
    elif settings.wanted_id is not None:
        own["broker.id"] = str(settings.wanted_id + slot)
    return own


def internal_copies(brokers: int) -> dict[str, str]:
    """How many copies the topics of groups and transactions have."""
    copies = min(brokers, COPIES_LIMIT)
    in_sync = min(copies, COPIES_LIMIT - 1)
    return {
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }


def port_step(ports: Sequence[int], brokers: int) -> int:
    """The smallest distance between the ports of two brokers with which no port comes twice."""
    fixed = [port for port in ports if port]
    step = 1
    while len({port + slot * step for port in fixed for slot in range(brokers)}) < len(fixed) * brokers:
        step += 1
    return step


def _shifted(endpoints: Iterable[Endpoint], distance: int) -> str:
    return ",".join(str(each._replace(port=_port(each.port, distance))) for each in endpoints)


def _http(address: tuple[str, int] | None, slot: int) -> str:
    if address is None:
        return ""
    host, port = address
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{_port(port, slot)}"


def _port(port: int, distance: int) -> int:
    if not port:
        return 0
    if port + distance > PORT_LIMIT:
        raise Failure(
            f"port {port} and {distance} more is above {PORT_LIMIT}, the highest there is; choose a lower one"
        )
    return port + distance
