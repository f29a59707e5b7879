"""The quotas of all clients of a broker: what the cluster's image says, and what each client used so far.

    quotas = ClientQuotas(settings, registry, monotonic_ms)
    quotas.load(image.quotas)
    charges = quotas.charges_of(PRODUCE, "alice", "shop")       # None: no quota matches

1. Who asks for charges may keep them until `notify` is called: a change of the quotas then acts on the next request,
   and a client without a quota costs nothing until then.
2. What a client used is remembered when its quota is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from ottla.broker.quotas.charges import Charges
from ottla.broker.quotas.forwarded import Client, forwarded_client
from ottla.broker.quotas.limits import FETCH, MUTATION, PRODUCE, REQUEST, ClientLimits, address_limits_of, limits_of
from ottla.broker.quotas.meters import BucketMeter, M, Meters, RateMeter
from ottla.broker.quotas.quota_metrics import byte_metrics, mutation_metrics, request_metrics
from ottla.broker.settings import BrokerSettings
from ottla.cluster.model import QuotaEntity
from ottla.metrics import Registry

Quotas = Iterable[tuple[QuotaEntity, Mapping[str, float]]]
_NO_LIMITS: Final = ClientLimits({})


class ClientQuotas:
    def __init__(self, settings: BrokerSettings, registry: Registry, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self.notify: Callable[[], None] = lambda: None
        self._limits: dict[str, ClientLimits] = {}
        self.address_limits: Mapping[str | None, float] = {}
        """Connections a second, by address; None is any other address."""
        # For time a client waits at most a window, as in Kafka: a request that took long cannot be made shorter.
        window_s = settings.quota_window_size_seconds
        made = partial(RateMeter, samples=settings.quota_window_num, window_s=window_s)
        produce, fetch = (byte_metrics(registry, group, monotonic_ms) for group in ("Produce", "Fetch"))
        request, mutation = request_metrics(registry, monotonic_ms), mutation_metrics(registry, monotonic_ms)
        self._produce = Meters(made, shown=produce.show, hidden=produce.hide)
        self._fetch = Meters(made, shown=fetch.show, hidden=fetch.hide)
        self._request = Meters(partial(made, longest_ms=window_s * 1000), shown=request.show, hidden=request.hide)
        self._mutation: Meters[BucketMeter] = Meters(
            partial(
                BucketMeter,
                samples=settings.controller_quota_window_num,
                window_s=settings.controller_quota_window_size_seconds,
            ),
            shown=mutation.show,
            hidden=mutation.hide,
        )
        self._all: dict[str, Meters[RateMeter] | Meters[BucketMeter]] = {
            PRODUCE: self._produce,
            FETCH: self._fetch,
            REQUEST: self._request,
            MUTATION: self._mutation,
        }

    def load(self, quotas: Quotas) -> None:
        """These are the quotas now."""
        entries = list(quotas)
        self._limits = {key: limits for key in self._all if (limits := limits_of(entries, key))}
        self.address_limits = address_limits_of(entries)
        for key, meters in self._all.items():
            meters.retain(self._limits.get(key, _NO_LIMITS).of)
        self.notify()

    def charges_of(self, key: str, user: str, client_id: str) -> Charges | None:
        """What a client's requests count against, of an API that the quota `key` is for; None for nothing."""
        if not self._limits:
            return None
        request = self._meter(self._request, REQUEST, user, client_id)
        produce = self._meter(self._produce, PRODUCE, user, client_id) if key == PRODUCE else None
        fetch = self._meter(self._fetch, FETCH, user, client_id) if key == FETCH else None
        mutation = self._meter(self._mutation, MUTATION, user, client_id) if key == MUTATION else None
        if request is None and produce is None and fetch is None and mutation is None:
            return None
        return Charges(produce=produce, fetch=fetch, request=request, mutation=mutation)

    def mutations_of(self, client: Client) -> BucketMeter | None:
        """What the topics count against that this client changes, or has made because it asked for them."""
        return self._meter(self._mutation, MUTATION, client.user, client.client_id)

    def forwarded_charges(self, client_id: str) -> Charges | None:
        """What a request counts against that a broker passed on under this client id."""
        client = forwarded_client(client_id)
        meter = None if client is None else self.mutations_of(client)
        return None if meter is None else Charges(mutation=meter, is_forwarded=True)

    def sweep(self) -> None:
        """Forget clients that were idle for an hour."""
        now_ms = self._monotonic_ms()
        swept = [meters.sweep(now_ms) for meters in self._all.values()]
        if any(swept):
            self.notify()

    def _meter(self, meters: Meters[M], key: str, user: str, client_id: str) -> M | None:
        limits = self._limits.get(key)
        found = None if limits is None else limits.find(user, client_id)
        if found is None:
            return None
        now_ms = self._monotonic_ms()
        if meters.sweep(now_ms):
            self.notify()
        return meters.of(*found, now_ms)
