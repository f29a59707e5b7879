"""Share groups on both brokers: Apache's ShareConsumerPerformance, which accepts everything it is given.

Every turn is a new group that begins at the start of the same topic, so that each of them acquires and acknowledges
every record once. A share consumer has one request on its way and asks for at most 500 records (`max.poll.records`):
what is measured is mostly how long a broker takes from a request with acknowledgements to an answer with records, its
write to `__share_group_state` included. The reports of the first third are left out, as with ConsumerPerformance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from bench.compare.brokers import Broker
from bench.compare.parts import PARTITIONS, Plan, Samples, both_up, turns
from bench.compare.tools import Amount, Tools
from bench.walk import requests
from bench.walk.figures import Figure
from bench.walk.processes import ask


class Case(NamedTuple):
    name: str
    record_bytes: int
    records: int
    consumers: int = 1


ONE: Final = Case("share 100 B", 100, 400_000)
LARGE: Final = Case("share 1 KB", 1_024, 60_000)
SEVERAL: Final = Case("share 100 B, 4 consumers", 100, 400_000, consumers=4)


def share(plan: Plan) -> list[Figure]:
    return [_measured(plan, ONE)]


def share_large(plan: Plan) -> list[Figure]:
    return [_measured(plan, LARGE)]


def share_several(plan: Plan) -> list[Figure]:
    return [_measured(plan, SEVERAL)]


def _measured(plan: Plan, case: Case) -> Figure:
    tools = Tools(plan.jars, plan.root)
    records = int(case.records * plan.produce_bytes / Plan(plan.jars, plan.root, 1).produce_bytes)
    rates, cpu = Samples(), Samples()
    with both_up(plan) as brokers:
        for broker in brokers:
            tools.create_topic(broker.port, "read", PARTITIONS)
            tools.produce(broker.port, "read", Amount(records - 1, 1, case.record_bytes))
            _turn(tools, case, records, Samples(), Samples())(broker, "warm")
        turns(plan, brokers, _turn(tools, case, records, rates, cpu))
    detail = f"{rates.text()} k records/s; CPU of the broker {cpu.text('.2f')} us per record; {rates.spread()}"
    return Figure(case.name, rates.ratio(), detail, at_least=1.0)


def _turn(tools: Tools, case: Case, records: int, rates: Samples, cpu: Samples) -> Callable[[Broker, str], None]:
    def turn(broker: Broker, group: str) -> None:
        ask(broker.port, requests.share_group_begins_at_the_start(group))
        before_s = broker.cpu_s
        rates.add(broker, tools.share(broker.port, "read", group, records, case.consumers) / 1e3)
        cpu.add(broker, (broker.cpu_s - before_s) * 1e6 / records)

    return turn
