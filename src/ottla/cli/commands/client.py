"""`ottla client`: what brokers speak with clients, and which metrics they ask of them (KIP-714).

1. `versions` lists the versions of every API that each broker speaks, and the one that this client would use.
2. Subscriptions say which metrics clients push. Brokers of Ottla keep what they push and show it at their metrics
   addresses as Prometheus reads them, which is where `list` looks: clients are in no answer of Kafka's protocol. A
   client is listed once for each broker that it pushes to, which is one at a time. Brokers of Kafka give what
   clients push to their plug-ins.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Final

from ottla.cli.connecting import Verbs, add_format, add_verb, admin_of, ensure, output_of
from ottla.cli.output import OK
from ottla.light_tuples import NamedTuple

EXAMPLES: Final = """\
examples:
  ottla client versions                         what every broker speaks
  ottla client versions --api Produce --json
  ottla client subscriptions
  ottla client subscribe java-producers --interval-ms 60000 --metric org.apache.kafka.producer. --match client_id=.*
  ottla client unsubscribe java-producers
  ottla client list                             who pushes metrics
  ottla client list --numbers --metrics broker-1:9644 --metrics broker-2:9644
"""
DEFAULT_METRICS: Final = "127.0.0.1:9644"
KIND: Final = "client-metrics"
_SERIES: Final = re.compile(r"^(ottla_client_info|ottla_client_metric)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


class KnownClient(NamedTuple):
    instance_id: str
    client_id: str
    software: str
    host: str
    principal: str


class Number(NamedTuple):
    """What a client said last of one metric."""

    instance_id: str
    client_id: str
    metric: str
    attributes: str
    value: float


def add_verbs(verbs: Verbs) -> None:
    versions = add_verb(verbs, "versions", "which versions of APIs brokers speak", run_versions, EXAMPLES)
    versions.add_argument("--api", action="append", default=[], metavar="NAME", help="only this; may be repeated")
    versions.add_argument("--broker", type=int, action="append", metavar="ID", help="only this one; may be repeated")
    add_format(versions)
    listing = add_verb(verbs, "subscriptions", "which metrics brokers ask of clients", run_subscriptions, EXAMPLES)
    add_format(listing)
    subscribe = add_verb(verbs, "subscribe", "ask clients for metrics", run_subscribe, EXAMPLES)
    subscribe.add_argument("name", metavar="NAME")
    subscribe.add_argument("--interval-ms", type=int, metavar="MS", help="how often they are sent")
    subscribe.add_argument("--metric", action="append", default=[], metavar="PREFIX", help="which; may be repeated")
    subscribe.add_argument("--match", action="append", default=[], metavar="NAME=REGEX", help="of which clients")
    clients = add_verb(verbs, "list", "clients that push metrics", run_list, EXAMPLES)
    clients.add_argument("--numbers", action="store_true", help="what they pushed last, instead of who they are")
    clients.add_argument("--client", action="append", default=[], metavar="ID", help="only this client id")
    clients.add_argument(
        "--metrics", action="append", metavar="HOST:PORT", help=f"where a broker's metrics are ({DEFAULT_METRICS})"
    )
    add_format(clients)
    unsubscribe = add_verb(verbs, "unsubscribe", "ask no more", run_unsubscribe, EXAMPLES)
    unsubscribe.add_argument("name", metavar="NAME")


def run_versions(options: argparse.Namespace) -> int:
    from ottla.protocol.api import APIS

    known = {api.name.lower(): api.name for api in APIS.values()}
    unknown = [name for name in options.api if name.lower() not in known]
    ensure(not unknown, f"there is no API {', '.join(unknown)}")
    wanted = {known[name.lower()] for name in options.api}
    with admin_of(options) as admin:
        nodes = {node.id: str(node.address) for node in admin.describe_cluster().nodes}
        missing = sorted(set(options.broker or ()) - set(nodes))
        ensure(not missing, f"there is no broker {', '.join(map(str, missing))}")
        found = admin.describe_api_versions(options.broker)
    rows = []
    for broker, ranges in sorted(found.items()):
        for key, low, high in sorted(ranges):
            api = APIS.get(key)
            name = api.name if api is not None else f"UNKNOWN({key})"
            usable = None
            if api is not None and max(low, api.versions.min) <= min(high, api.versions.max):
                usable = min(high, api.versions.max)
            if not wanted or name in wanted:
                rows.append((broker, nodes[broker], key, name, low, high, usable))
    output_of(options).table(("BROKER", "ADDRESS", "KEY", "API", "MIN", "MAX", "USED"), rows)
    return OK


# --- subscriptions ---------------------------------------------------------------------------------------------------


def run_subscriptions(options: argparse.Namespace) -> int:
    from ottla.cli.operations.configs import resource

    with admin_of(options) as admin:
        resources = [resource(KIND, name) for name in sorted(admin.list_client_metrics_resources())]
        found = admin.describe_configs(resources) if resources else {}
    rows = []
    for _, name in resources:
        settings = {each.name: each.value for each in found[resource(KIND, name)].values()}
        rows.append((name, settings.get("interval.ms"), settings.get("metrics"), settings.get("match")))
    output_of(options).table(("NAME", "INTERVAL MS", "METRICS", "MATCH"), rows)
    return OK


def run_subscribe(options: argparse.Namespace) -> int:
    from ottla.cli.operations.configs import resource, setting

    values = {} if options.interval_ms is None else {"interval.ms": str(options.interval_ms)}
    values |= {
        name: ",".join(words) for name, words in (("metrics", options.metric), ("match", options.match)) if words
    }
    ensure(values, "nothing is asked for; name --metric, --interval-ms or --match")
    with admin_of(options) as admin:
        admin.incremental_alter_configs({resource(KIND, options.name): setting(values)})
    print(f"subscribed {options.name}")
    return OK


def run_unsubscribe(options: argparse.Namespace) -> int:
    from ottla.cli.operations.configs import resetting, resource

    with admin_of(options) as admin:
        ensure(
            options.name in admin.list_client_metrics_resources(),
            f"there is no subscription {options.name}; nothing was changed",
        )
        changes = resetting(("interval.ms", "metrics", "match"))
        admin.incremental_alter_configs({resource(KIND, options.name): changes})
    print(f"unsubscribed {options.name}")
    return OK


# --- clients ---------------------------------------------------------------------------------------------------------


def run_list(options: argparse.Namespace) -> int:
    from ottla.cli.top.gathering import fetched_metrics

    rows: list[tuple[object, ...]] = []
    for address in options.metrics or [DEFAULT_METRICS]:
        text = fetched_metrics(address)
        ensure(text is not None, f"no broker shows its metrics at {address}; name another address with --metrics")
        assert text is not None, "ensured"
        clients, numbers = clients_of(text)
        known = [each for each in (numbers if options.numbers else clients) if _is_wanted(each.client_id, options)]
        rows += sorted((*each, address) for each in known)
    headings = ("INSTANCE", "CLIENT", "METRIC", "ABOUT", "VALUE", "BROKER")
    if not options.numbers:
        headings = ("INSTANCE", "CLIENT", "SOFTWARE", "HOST", "PRINCIPAL", "BROKER")
    output_of(options).table(headings, rows)
    return OK


def _is_wanted(client_id: str, options: argparse.Namespace) -> bool:
    return not options.client or client_id in options.client


def clients_of(text: str) -> tuple[list[KnownClient], list[Number]]:
    """The clients and their numbers in a text of Prometheus."""
    clients, numbers = [], []
    for name, labels, value in _SERIES.findall(text):
        found = dict(_labels(labels))
        named = found.get("client_instance_id", ""), found.get("client_id", "")
        if name == "ottla_client_metric":
            numbers.append(Number(*named, found.get("metric", ""), found.get("attributes", ""), float(value)))
            continue
        software = f"{found.get('software_name', '')} {found.get('software_version', '')}".strip()
        clients.append(KnownClient(*named, software, found.get("host", ""), found.get("principal", "")))
    return clients, numbers


def _labels(text: str) -> Iterator[tuple[str, str]]:
    for name, value in _LABEL.findall(text):
        yield name, _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], value)
