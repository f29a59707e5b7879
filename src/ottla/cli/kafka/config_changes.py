"""`kafka-configs --alter`: settings, quotas and SCRAM passwords; which of them is meant depends on the entity."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.cluster import file_settings
from ottla.cli.kafka.parser import Options

if TYPE_CHECKING:
    from ottla.cli.kafka.configs import Entities
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.credentials import ScramMechanism

QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_QUOTAS: Final = ("connection_creation_rate",)
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
DEFAULT_ITERATIONS: Final = 4096
OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"


def configs_to_add(options: Options) -> dict[str, str]:
    """What --add-config or --add-config-file says; commas inside [] belong to a value."""
    found: dict[str, str] = {}
    if options.has("add-config-file"):
        found |= {name: str(text) for name, text in file_settings(options.text("add-config-file")).items()}
    if options.has("add-config"):
        for word in re.split("," + OUTSIDE_BRACKETS, options.text("add-config")):
            parts = re.split(r"\s*=\s*" + OUTSIDE_BRACKETS, word)
            if len(parts) != 2:
                raise ValueError(
                    "requirement failed: Invalid entity config: all configs to be added must be in the format "
                    '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
                )
            found[parts[0].strip()] = parts[1].replace("[", "").replace("]", "").strip()
    for name in found:
        if not re.fullmatch(r"[$a-zA-Z0-9._-]*", name):
            raise ValueError(f"Invalid character found for config key: {name}")
    return found


def alter(admin: Admin, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    kind = entities.types[0]
    if kind in ("users", "clients"):
        _alter_users(admin, entities, added, deleted)
    elif kind == "ips":
        unknown = [name for name in (*added, *deleted) if name not in IP_QUOTAS]
        if unknown:
            raise ValueError(
                "Only connection quota configs can be added for 'ips' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
        _alter_quotas(admin, entities, added, deleted)
    else:
        _alter_settings(admin, kind, entities.names[0], added, deleted)


def _alter_settings(admin: Admin, kind: str, name: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    from ottla.cli.kafka.config_views import resource_of
    from ottla.cli.operations.configs import resetting, setting

    resource = resource_of(kind, name)
    if kind == "broker-loggers":
        loggers = admin.describe_configs([resource])[resource]
        if unknown := [each for each in (*deleted, *added) if each not in loggers]:
            raise ValueError(f"Invalid broker logger(s): {','.join(unknown)}")
    admin.incremental_alter_configs({resource: resetting(deleted) + setting(added)})


# --- users, clients, addresses ---------------------------------------------------------------------------------------


def _alter_users(admin: Admin, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    quotas = [name for name in (*added, *deleted) if name in QUOTAS]
    secrets = [name for name in (*added, *deleted) if name in MECHANISMS]
    only_quotas = entities.types != ["users"]
    kind, allowed = ("clients", "quota") if only_quotas else ("users", "quota and SCRAM credential")
    for names, verb in ((added, "added"), (deleted, "deleted")):
        unknown = [each for each in names if each not in QUOTAS and (only_quotas or each not in MECHANISMS)]
        if unknown:
            raise ValueError(
                f"Only {allowed} configs can be {verb} for '{kind}' using --bootstrap-server. Unexpected config names: "
                f"{'Set' if verb == 'added' else 'List'}({', '.join(unknown)})"
            )
    if secrets and "" in entities.names:
        raise ValueError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    if secrets and quotas:
        raise ValueError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
        )
    if quotas:
        _alter_quotas(admin, entities, added, deleted)
    else:
        _alter_passwords(admin, entities.names[0], added, deleted)


def _alter_quotas(admin: Admin, entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    from ottla.cli.kafka.config_views import ENTITY_TYPES, quotas_of

    before = next(iter(quotas_of(admin, entities).values()), {})
    if missing := [name for name in deleted if name not in before]:
        raise ValueError(f"Invalid config(s): {','.join(missing)}")
    limits: dict[str, float | None] = dict.fromkeys(deleted)
    for name, text in added.items():
        try:
            limits[name] = float(text)
        except ValueError:
            raise ValueError(f"Cannot parse quota configuration value for {name}: {text}") from None
    entity = {ENTITY_TYPES[kind]: name or None for kind, name in zip(entities.types, entities.names, strict=True)}
    admin.alter_client_quotas([(entity, limits)])


def _alter_passwords(admin: Admin, user: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    from ottla.client.admin.credentials import ScramDeletion, ScramUpsertion

    changes: list[ScramUpsertion | ScramDeletion] = [ScramDeletion(user, _mechanism(name)) for name in deleted]
    for name, text in added.items():
        found = re.fullmatch(r"(?:iterations=(-?[0-9]*),)?password=(.*)", text)
        if found is None:
            raise ValueError(f"Invalid credential property {_mechanism(name).name}=[hidden]")
        iterations = int(found[1]) if found[1] not in (None, "", "-1") else DEFAULT_ITERATIONS
        if iterations < DEFAULT_ITERATIONS:
            raise ValueError(
                f"Iterations {iterations} is less than the minimum {DEFAULT_ITERATIONS} required for {name}"
            )
        changes.append(ScramUpsertion(user, found[2], _mechanism(name), iterations))
    admin.alter_user_scram_credentials(changes)


def _mechanism(name: str) -> ScramMechanism:
    from ottla.client.admin.credentials import ScramMechanism

    return ScramMechanism[name.replace("-", "_")]
