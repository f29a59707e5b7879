"""The settings of a broker: Kafka's names, types, defaults and bounds, and a few of our own that begin with ottla.

    settings = BrokerSettings({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/var/lib/ottla"})
    settings.endpoints                           # (Endpoint(name='PLAINTEXT', protocol='PLAINTEXT', host=..., port=0),)
    settings.topic_defaults()                    # TopicSettings: what a topic has that sets nothing
    settings.for_listener("SECURE")              # with the values of listener.name.secure.* over the others

The groups lie side by side in this package, one file per theme; the groups of the coordinators lie with them.

1. Names are those of Apache Kafka 4.3, and of 3.9 where a cluster on ZooKeeper needs them. A name that nobody knows is
   an error with the nearest one; so is one that Kafka removed, with what to do instead.
2. Defaults are Kafka's, but for: listeners (loopback only), log.dir (under the user's home), what names a Java class,
   the sizes of socket buffers (left to the system, docs/decisions/0009), and on a broker without ZooKeeper one replica
   for the internal topics (Kafka's 3 would hang there).
3. A listener that others can reach must ask for a login and be encrypted, unless ottla.allow.insecure.listeners=true.
4. What has no effect says so in its declaration (no_effect.py). What would only seem to protect is refused, the rest is
   named in a warning (without_effect.py). Rights that nobody checks (super.users without an authorizer) are refused.
5. listener.name.<name>.<setting> is checked by its setting, and the listener must exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final, Self

from ottla.broker.coordinators.groups.settings import GroupSettings
from ottla.broker.coordinators.transactions.settings import TransactionSettings
from ottla.broker.settings.access import AUTHORIZERS, AccessSettings
from ottla.broker.settings.cluster import ClusterSettings
from ottla.broker.settings.endpoints import (
    Endpoint,
    SecurityProtocol,
    is_loopback,
    parse_address,
    parse_listeners,
    parse_networks,
    parse_protocol_map,
)
from ottla.broker.settings.groups import GroupCoordinatorSettings
from ottla.broker.settings.kraft import KRaftSettings
from ottla.broker.settings.listener_keys import ListenerKey, parse_listener_key
from ottla.broker.settings.listeners import ListenerSettings
from ottla.broker.settings.logs import LogSettings
from ottla.broker.settings.observing import ObservingSettings
from ottla.broker.settings.replication import ReplicationSettings
from ottla.broker.settings.sharing import SharingSettings
from ottla.broker.settings.tls import TlsSettings
from ottla.broker.settings.transactions import TransactionLogSettings
from ottla.broker.settings.unknown import explain
from ottla.errors import InvalidConfig, InvalidSetting, UnknownSetting
from ottla.settings import Rule, Setting, Source, WrittenValue
from ottla.storage.settings import BROKER_KEYS, TopicSettings
from ottla.values import Address
from ottla.values import parse_address as parse_node_address

__all__ = ["BrokerSettings", "Endpoint"]

ZOOKEEPER: Final = "zookeeper.connect"
ALL_DIRECTORIES: Final = "*"
BROKER_ROLE: Final = "broker"
CONTROLLER_ROLE: Final = "controller"
"""What process.roles says; both are a node that is a broker and a controller of the same cluster."""
# One broker cannot have three replicas; Kafka's own server.properties sets the same values.
ALONE: Final[Mapping[str, int]] = {
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}


_READ: Final = (
    "endpoints",
    "advertised_endpoints",
    "inter_broker_listener",
    "admin_address",
    "schema_registry_address",
    "broker_networks",
    "quorum_addresses",
    "topic_defaults",
)


class BrokerSettings(
    ListenerSettings,
    ClusterSettings,
    KRaftSettings,
    LogSettings,
    ReplicationSettings,
    GroupCoordinatorSettings,
    GroupSettings,
    SharingSettings,
    TransactionLogSettings,
    TransactionSettings,
    AccessSettings,
    TlsSettings,
    ObservingSettings,
):
    """All that can be set for a broker, checked and unchanging."""

    # -- what others ask ---------------------------------------------------------------------------------------------

    @cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where to listen, in their order; without the controller listeners of a Kafka quorum."""
        listeners = parse_listeners("listeners", self.listeners, self._protocols)
        endpoints = tuple(each for each in listeners if each.name not in self._controller_names)
        if not endpoints and not self.is_only_controller:
            raise InvalidSetting("every listener is named in controller.listener.names; a broker needs one for clients")
        return endpoints

    @cached_property
    def advertised_endpoints(self) -> tuple[Endpoint, ...]:
        """What to tell clients, before `endpoints.advertise` has filled in ports and host."""
        endpoints, aside = self.endpoints, self._controller_names
        if not self.advertised_listeners:
            _refuse_unadvertisable(endpoints)
            return endpoints
        found = parse_listeners("advertised.listeners", self.advertised_listeners, self._protocols)
        names = {each.name for each in endpoints}
        for each in found:
            if each.name not in names | aside:
                raise InvalidSetting(
                    f"advertised.listeners has {each}, but listeners has no {each.name}: it has "
                    f"{', '.join(map(str, endpoints))}"
                )
        return tuple(each for each in found if each.name in names)

    @cached_property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        """Where to listen as a controller, in their order; none on a node that is only a broker."""
        if not self._controller_names or CONTROLLER_ROLE not in self.process_roles:
            return ()
        listeners = parse_listeners("listeners", self.listeners, self._protocols)
        return tuple(each for each in listeners if each.name in self._controller_names)

    @cached_property
    def controller_endpoints(self) -> tuple[Endpoint, ...]:
        """Where this node is a controller for others, as it is advertised; none when no listener is named for it."""
        if not self._controller_names:
            return ()
        found = {each.name: each for each in parse_listeners("listeners", self.listeners, self._protocols)}
        if self.advertised_listeners:
            advertised = parse_listeners("advertised.listeners", self.advertised_listeners, self._protocols)
            found |= {each.name: each for each in advertised}
        found = {name: each for name, each in found.items() if name in self._controller_names}
        return tuple(found.values())

    @property
    def wanted_id(self) -> int | None:
        """The broker id that was asked for; None leaves the choice to the store."""
        chosen = self.broker_id if self.node_id is None else self.node_id
        return None if chosen < 0 else chosen

    @property
    def is_alone(self) -> bool:
        """Whether this broker is a cluster of its own, which writes its metadata log alone."""
        return not self.zookeeper_connect and not self.is_under_controllers

    @property
    def is_under_controllers(self) -> bool:
        """Whether its cluster is kept in the metadata log of controllers that are asked on their listeners: elsewhere
        (process.roles=broker), or here, too."""
        return self.process_roles == (BROKER_ROLE,) or self.is_controller

    @property
    def is_controller(self) -> bool:
        """Whether this node is a controller that others can ask: its role is that, and it opens a listener for it."""
        return bool(self.controller_listeners)

    @property
    def is_only_controller(self) -> bool:
        """Whether this node is a controller and no broker."""
        return self.process_roles == (CONTROLLER_ROLE,)

    @cached_property
    def quorum_voters(self) -> tuple[tuple[int, Address], ...]:
        """Ids and addresses of the voters, where the settings name them."""
        return tuple(map(_voter, self.controller_quorum_voters))

    @cached_property
    def quorum_addresses(self) -> tuple[Address, ...]:
        """Where the controllers are asked first."""
        voters = [address for _, address in self.quorum_voters]
        return tuple(dict.fromkeys([*map(parse_node_address, self.controller_quorum_bootstrap_servers), *voters]))

    @property
    def controller_listener(self) -> Endpoint:
        """The listener of controllers that this broker asks them on; its host and port are told by the quorum."""
        name = self.controller_listener_names[0].upper()
        return Endpoint(name, self._protocols[name], "", 0)

    @property
    def metadata_directory(self) -> Path:
        """Which log directory has the metadata log."""
        return Path(self.metadata_log_dir).expanduser() if self.metadata_log_dir else self.data_directories[0]

    @property
    def data_directories(self) -> tuple[Path, ...]:
        return tuple(Path(each).expanduser() for each in self.log_dirs or self.log_dir)

    @property
    def cordoned_directories(self) -> tuple[Path, ...]:
        """Those of the data directories that get no new partitions."""
        if ALL_DIRECTORIES in self.cordoned_log_dirs:
            return self.data_directories
        return tuple(Path(each).expanduser() for each in self.cordoned_log_dirs)

    @property
    def admin_address(self) -> tuple[str, int] | None:
        """Where metrics and health are served; None is nowhere."""
        text = self.ottla_admin_listener.strip()
        return parse_address("ottla.admin.listener", text) if text else None

    @property
    def schema_registry_address(self) -> tuple[str, int] | None:
        """Where the schema registry is served; None is nowhere."""
        text = self.ottla_schema_registry_listener.strip()
        return parse_address("ottla.schema.registry.listener", text) if text else None

    @property
    def has_http(self) -> bool:
        """Whether anything is served over HTTP."""
        return self.admin_address is not None or self.schema_registry_address is not None

    @cached_property
    def inter_broker_listener(self) -> Endpoint:
        """The listener other brokers use."""
        if self.is_only_controller and self.controller_listeners:
            return self.controller_listeners[0]
        by_name = {each.name: each for each in self.advertised_endpoints}
        name = self.inter_broker_listener_name
        if name is not None and "security.inter.broker.protocol" in self._written:
            raise InvalidSetting("give inter.broker.listener.name or security.inter.broker.protocol, not both")
        wanted = self.security_inter_broker_protocol if name is None else name.upper()
        if wanted in by_name:
            return by_name[wanted]
        # A broker of its own talks to no other, so any name will do unless somebody asked for one.
        if name is None and self.is_alone and self.advertised_endpoints:
            return self.advertised_endpoints[0]
        raise InvalidSetting(
            f"other brokers are to use the listener {wanted}, but clients are told of {', '.join(by_name) or 'none'}; "
            "set inter.broker.listener.name to one of them"
        )

    @property
    def brokers_authenticate(self) -> bool:
        """Whether brokers prove to each other who they are, by a login or by a certificate (security/peers.py)."""
        endpoint = self.inter_broker_listener
        return endpoint.protocol.startswith("SASL") or (
            endpoint.protocol == "SSL" and self._client_auth(endpoint) != "none"
        )

    @property
    def broker_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """Where brokers ask from, beside where they are reached."""
        return parse_networks("ottla.broker.networks", self.ottla_broker_networks)

    def topic_defaults(self) -> TopicSettings:
        """What a topic has that sets nothing."""
        return TopicSettings.from_broker(
            {slot: each.value for slot, each in self._written.items() if slot in BROKER_KEYS}
        )

    def for_listener(self, name: str, mechanism: str = "") -> Self:
        """These settings as one listener sees them; values for one SASL mechanism win over those for the listener."""
        wanted = {"", mechanism.lower()}
        keys = [key for key in self._listener_keys() if key.listener == name.upper() and key.mechanism in wanted]
        keys.sort(key=lambda key: bool(key.mechanism))
        overrides = {key.setting: self._written[key.text] for key in keys}
        if not overrides:
            return self
        return self._made({**self._written, **overrides})

    def configured_names(self) -> tuple[str, ...]:
        """What was set by file, option or while running, as it was written."""
        return tuple(each.key for each in self._written.values() if each.source is not Source.DEFAULT)

    def written_value(self, key: str) -> object:
        """A value as it was written under this key, with a listener's prefix or without."""
        return next(each.value for each in self._written.values() if each.key == key)

    def listener_values(self) -> dict[str, object]:
        """The values for single listeners, by full name and as they were written."""
        return {key.text: self._written[key.text].value for key in self._listener_keys()}

    @classmethod
    def parse_key(cls, key: str) -> ListenerKey | None:
        """A parsed key with a listener's prefix; None when it has none."""
        return parse_listener_key(key, cls._declared)

    @classmethod
    def setting_of(cls, key: str) -> Setting[object] | None:
        """The declaration behind a key, with or without a listener's prefix."""
        parsed = cls.parse_key(key)
        return cls._declared.get(key if parsed is None else parsed.setting)

    # -- from texts to values ----------------------------------------------------------------------------------------

    @classmethod
    def layered(cls, *layers: Mapping[str, object]) -> Self:
        """From several mappings of dotted names, each over those before it."""
        refusals: list[InvalidConfig] = []
        values: dict[str, WrittenValue] = {}
        for layer in layers:
            values |= cls._gather(layer, {}, Source.STATIC, refusals)
        return cls._made(values, refusals)

    @classmethod
    def knows(cls, name: str) -> bool:
        """Whether a dotted name is a setting, with a listener's prefix or without."""
        return cls.problem_with(name) is None

    @classmethod
    def problem_with(cls, name: str) -> str | None:
        """Why a dotted name is no setting; None when it is one."""
        refusals: list[InvalidConfig] = []
        cls._gather({name: ""}, {}, Source.STATIC, refusals)
        return next((each.detail for each in refusals if isinstance(each, UnknownSetting)), None)

    @classmethod
    def _gather(
        cls,
        dotted: Mapping[str, object],
        keywords: Mapping[str, object],
        source: Source,
        refusals: list[InvalidConfig],
    ) -> dict[str, WrittenValue]:
        prefixed = {key: cls.parse_key(key) for key in dotted}
        plain = {key: value for key, value in dotted.items() if prefixed[key] is None}
        values = super()._gather(plain, keywords, source, refusals)
        for key, parsed in prefixed.items():
            if parsed is not None:
                values[parsed.text] = WrittenValue(key, dotted[key], source)
        return values

    @classmethod
    def _unknown(cls, written: str, known: Iterable[str]) -> UnknownSetting:
        return explain(super()._unknown(written, known), written)

    @classmethod
    def _fed_by(cls, slot: str) -> Iterator[Setting[object]]:
        parsed = cls.parse_key(slot)
        return super()._fed_by(slot if parsed is None else parsed.setting)

    def _fill(self, values: Mapping[str, WrittenValue], refusals: list[InvalidConfig]) -> None:
        chosen = {slot: each for slot, each in values.items() if each.source is not Source.DEFAULT}
        lowest: dict[str, WrittenValue] = {}
        if not _is_elsewhere(chosen):
            lowest = {name: WrittenValue(name, value, Source.DEFAULT) for name, value in ALONE.items()}
        super()._fill({**lowest, **chosen}, refusals)

    def _listener_keys(self) -> list[ListenerKey]:
        parsed = (self.parse_key(slot) for slot in self._written)
        return [key for key in parsed if key is not None]

    # -- rules between settings --------------------------------------------------------------------------------------

    def rules(self) -> Iterator[Rule]:
        yield from super().rules()
        yield from (partial(self._read, name) for name in _READ)
        yield self._check_ids
        yield self._check_generated_id
        yield self._check_quorum
        yield self._check_directories
        yield self._check_listener_keys
        yield self._refuse_false_protection
        yield self._refuse_unchecked_rights
        yield self._refuse_unused_encoder
        yield self._refuse_open_doors
        yield self._refuse_open_http

    def _read(self, name: str) -> None:
        """What is read out of texts raises InvalidSetting where it cannot be."""
        if callable(value := getattr(self, name)):
            value()

    def _check_ids(self) -> None:
        if self.node_id is not None and self.broker_id >= 0 and self.node_id != self.broker_id:
            raise InvalidSetting(
                f"node.id={self.node_id} and broker.id={self.broker_id} are the same thing; give one of them"
            )

    def _check_generated_id(self) -> None:
        if self.wanted_id is None and not self.broker_id_generation_enable:
            raise InvalidSetting("broker.id.generation.enable=false and there is no broker.id; give the broker its id")

    def _check_quorum(self) -> Iterator[str]:
        """What a node of a quorum must say, and must not, as in Kafka."""
        roles = set(self.process_roles)
        if not roles:
            return
        if self.zookeeper_connect:
            yield (
                f"process.roles={','.join(self.process_roles)} and zookeeper.connect both say where the truth of the "
                "cluster is; give one of them"
            )
        yield from self._check_controller() if CONTROLLER_ROLE in roles else self._check_under_controllers()

    def _check_under_controllers(self) -> Iterator[str]:
        """Of a node that is only a broker."""
        if self.wanted_id is None:
            yield "process.roles=broker needs node.id"
        if not self.controller_listener_names:
            yield "process.roles=broker needs controller.listener.names: the listener that the controllers are asked on"
        if not self.controller_quorum_voters and not self.controller_quorum_bootstrap_servers:
            yield (
                "process.roles=broker needs controller.quorum.bootstrap.servers (or controller.quorum.voters): where "
                "the controllers are"
            )
        opened = {text.partition("://")[0].strip().upper() for text in self.listeners}
        if both := sorted(opened & self._controller_names):
            yield f"listeners has {', '.join(both)}, which a broker does not open: controller.listener.names has it"
        if self.wanted_id in [voter_id for voter_id, _ in self.quorum_voters]:
            yield f"node.id={self.wanted_id} is a voter of controller.quorum.voters; a broker needs an id of its own"

    def _check_controller(self) -> Iterator[str]:
        """Of a node that is a controller, whether or not it is a broker, too."""
        has_others = len(self.controller_quorum_voters) > 1 or len(self.controller_quorum_bootstrap_servers) > 1
        if not self.is_controller:
            if self.is_only_controller or has_others:
                yield (
                    f"process.roles={','.join(self.process_roles)} needs a listener that controller.listener.names "
                    "names, for example listeners=CONTROLLER://127.0.0.1:9093 and controller.listener.names=CONTROLLER"
                )
            return
        if self.wanted_id is None and (self.is_only_controller or has_others):
            yield f"process.roles={','.join(self.process_roles)} needs node.id"
        voters = [voter_id for voter_id, _ in self.quorum_voters]
        if voters and self.wanted_id not in voters:
            yield (
                f"node.id={self.wanted_id} is no voter of controller.quorum.voters="
                f"{','.join(self.controller_quorum_voters)}, which a controller must be"
            )
        if self.is_only_controller and self._client_listeners():
            yield (
                f"process.roles=controller, and listeners has {', '.join(self._client_listeners())}, which only a "
                "broker opens; name it in controller.listener.names or leave it out"
            )

    def _client_listeners(self) -> list[str]:
        opened = {text.partition("://")[0].strip().upper() for text in self.listeners}
        return sorted(opened - self._controller_names)

    def _check_directories(self) -> Iterator[str]:
        directories = self.data_directories
        if not directories:
            yield "log.dirs is empty; name a directory for the data"
        if strange := sorted(str(each) for each in set(self.cordoned_directories) - set(directories)):
            yield f"cordoned.log.dirs names {', '.join(strange)}, which log.dirs has not"
        if len(set(directories)) < len(directories):
            yield f"log.dirs names a directory twice: {', '.join(map(str, directories))}"

    @property
    def _controller_names(self) -> set[str]:
        return {name.upper() for name in self.controller_listener_names}

    @property
    def _protocols(self) -> dict[str, SecurityProtocol]:
        protocols = dict(parse_protocol_map(self.listener_security_protocol_map))
        for name in self._controller_names:
            protocols.setdefault(name, "PLAINTEXT")
        return protocols

    def _check_listener_keys(self) -> Iterator[str]:
        names = {text.partition("://")[0].strip().upper() for text in self.listeners} | self._controller_names
        for key in self._listener_keys():
            written = self._written[key.text]
            if key.listener not in names:
                yield f"{written.key}: there is no listener {key.listener}; there is {', '.join(names)}"
            else:
                yield from self._wrong_value(key, written)

    def _wrong_value(self, key: ListenerKey, written: WrittenValue) -> Iterator[str]:
        try:
            self._declared[key.setting].accept(written.value, written.key)
        except InvalidSetting as refusal:
            yield refusal.brief

    def _refuse_false_protection(self) -> Iterator[str]:
        """What would seem to protect somebody and has no effect must not be set."""
        marked = (each for each in self._declared.values() if each.no_effect is not None)
        plain = [(each.name, each, self.__dict__.get(each.attribute, each.default)) for each in marked]
        keys = [(key.text, self._declared[key.setting], self._written[key.text].value) for key in self._listener_keys()]
        for name, declared, value in (*plain, *keys):
            mark = declared.no_effect
            if mark is not None and mark.kind == "protection" and not declared.is_default(value):
                yield f"{name} would protect nobody: {mark.sentence}"

    def _refuse_unchecked_rights(self) -> None:
        """Super users mean something to an authorizer, and to brokers that know each other by name."""
        if self.authorizer_class_name or not self.super_users:
            return
        if self.is_alone or not self.brokers_authenticate:
            raise InvalidSetting(
                "super.users is set, but without an authorizer everybody may do everything; "
                f"set authorizer.class.name, for example to {AUTHORIZERS[-1]}"
            )

    def _refuse_unused_encoder(self) -> Iterator[str]:
        """Only what ZooKeeper keeps is encrypted."""
        if self.zookeeper_connect:
            return
        for each in self._declared.values():
            if not each.name.startswith("password.encoder."):
                continue
            if not each.is_default(getattr(self, each.attribute)):
                yield (
                    f"{each.name} would protect nobody: without ZooKeeper, secrets that are set while running are kept "
                    "in the data directory as they are; remove it, and let only the broker read that directory"
                )

    def _refuse_open_doors(self) -> Iterator[str]:
        if self.ottla_allow_insecure_listeners:
            return
        for each in (*self.endpoints, *self.controller_listeners):
            if not each.is_loopback and (danger := self._danger(each)):
                yield (
                    f"the listener {each} can be reached from other machines and {danger}. Use SASL_SSL, or SSL with "
                    "ssl.client.auth=required, or listen on 127.0.0.1; or, if your network is the lock, set "
                    "ottla.allow.insecure.listeners=true (--insecure)"
                )

    def _refuse_open_http(self) -> Iterator[str]:
        if self.ottla_allow_insecure_listeners:
            return
        for name, address in (
            ("ottla.admin.listener", self.admin_address),
            ("ottla.schema.registry.listener", self.schema_registry_address),
        ):
            if address is not None and not is_loopback(address[0]):
                yield (
                    f"{name}={self.written_value(name)!r} can be reached from other machines and asks for no login; "
                    "use 127.0.0.1, or set ottla.allow.insecure.listeners=true"
                )

    def _danger(self, endpoint: Endpoint) -> str | None:
        """What is wrong with a listener that others can reach."""
        if endpoint.protocol == "SASL_PLAINTEXT":
            return "is not encrypted: anybody in between could read records and logins, and take over a connection"
        if endpoint.protocol == "PLAINTEXT" or (
            endpoint.protocol == "SSL" and self._client_auth(endpoint) != "required"
        ):
            return "asks for no login: anybody there could read, write and delete everything"
        return None

    def _client_auth(self, endpoint: Endpoint) -> str:
        """Whether clients show certificates there: required, requested or none."""
        own = self._written.get(f"listener.name.{endpoint.name.lower()}.ssl.client.auth")
        return self.ssl_client_auth if own is None else str(own.value).strip()


def _is_elsewhere(chosen: Mapping[str, WrittenValue]) -> bool:
    """Whether the truth of the cluster is not the broker's own, by what was written."""
    if ZOOKEEPER in chosen and chosen[ZOOKEEPER].value:
        return True
    roles = _texts(chosen, "process.roles")
    if CONTROLLER_ROLE not in roles:
        return roles == [BROKER_ROLE]
    others = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
    return any(len(_texts(chosen, name)) > 1 for name in others)


def _texts(chosen: Mapping[str, WrittenValue], name: str) -> list[str]:
    """The entries of a list that was written, or not."""
    value = chosen[name].value if name in chosen else ""
    named = value.split(",") if isinstance(value, str) else value
    return [text for each in named if (text := str(each).strip())]  # type: ignore[attr-defined]


def _voter(text: str) -> tuple[int, Address]:
    """Id and address of id@host:port."""
    node_id, _, address = text.partition("@")
    if not node_id.isdecimal() or not address:
        raise InvalidSetting(f"controller.quorum.voters has {text!r}; write id@host:port, like 1@127.0.0.1:9093")
    return int(node_id), parse_node_address(address)


def _refuse_unadvertisable(endpoints: Sequence[Endpoint]) -> None:
    for each in endpoints:
        if each.host and each.is_any_interface:
            raise InvalidSetting(
                f"listeners has {each}, which no client can connect to; set advertised.listeners to what clients "
                f"reach, like {each.name}://my-host:{each.port}"
            )
