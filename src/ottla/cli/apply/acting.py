"""Makes the changes of a plan, in its order and in portions, and looks up the secrets they need.

1. Before the first change the cluster is asked whether it would take all of them, as far as it can be asked, and every
   secret is looked up: what can be known beforehand leaves the cluster as it was.
2. When a change fails all the same, the sentence says how many were made. Running it again goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.cli.apply.values import (
    AddRule,
    Change,
    CreateTopic,
    DeletePassword,
    DeleteTopic,
    GrowTopic,
    RemoveRule,
    SecretSource,
    SetConfig,
    SetPassword,
    SetQuota,
)
from ottla.cli.output import Failure

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin
    from ottla.client.admin.configs import AlterConfig, ConfigResource
    from ottla.client.admin.quotas import EntityKey

PORTION: Final = 200
DEFAULT_ITERATIONS: Final = 16_384  # as `ottla user create`
SECRET_LIMIT_BYTES: Final = 1 << 20  # a setting may be a whole chain of certificates

C = TypeVar("C")
Secrets = Mapping[SecretSource, str]


# --- secrets ---------------------------------------------------------------------------------------------------------


def secrets_of(changes: Iterable[Change], environment: Mapping[str, str], folder: Path) -> dict[SecretSource, str]:
    """The secrets that these changes need; paths are counted from the folder of the file that names them."""
    found: dict[SecretSource, str] = {}
    for each in changes:
        if isinstance(each, SetPassword):
            text = _secret(each.password, environment, folder)
            found[each.password] = text.partition("\n")[0].rstrip("\r")
        elif isinstance(each, SetConfig) and isinstance(each.after, SecretSource):
            found[each.after] = _secret(each.after, environment, folder).removesuffix("\n")
    for source, value in found.items():
        if not value:
            raise Failure(f"the secret {source} is empty; nothing was changed")
    return found


def _secret(source: SecretSource, environment: Mapping[str, str], folder: Path) -> str:
    if source.kind == "env":
        if source.name not in environment:
            raise Failure(f"the environment has no {source.name}, and a secret comes from there; nothing was changed")
        return environment[source.name]
    path = folder / source.name
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(SECRET_LIMIT_BYTES + 1)
    except OSError as error:
        raise Failure(f"cannot read the secret in {path}: {error.strerror}; nothing was changed") from None
    except UnicodeDecodeError:
        raise Failure(f"{path} is not a text file; nothing was changed") from None
    if len(text) > SECRET_LIMIT_BYTES:
        raise Failure(f"the secret in {path} is longer than {SECRET_LIMIT_BYTES:,} bytes; nothing was changed")
    return text


# --- changes ---------------------------------------------------------------------------------------------------------


def validate(admin: Admin, changes: Sequence[Change], secrets: Secrets | None = None) -> None:
    """Ask the cluster whether it would take them; raises what it says. Without secrets those settings are left out."""
    known = [each for each in changes if secrets is not None or not _needs_secret(each)]
    for portion in portions(known):
        first = portion[0]
        if isinstance(first, CreateTopic | GrowTopic | SetConfig | SetQuota):
            _ACTIONS[type(first)](admin, portion, secrets or {}, True)


def _needs_secret(change: Change) -> bool:
    return isinstance(change, SetPassword) or (isinstance(change, SetConfig) and isinstance(change.after, SecretSource))


def carry_out(
    admin: Admin, changes: Sequence[Change], secrets: Secrets, report: Callable[[Change], None] = lambda _: None
) -> None:
    """Make the changes; each is reported when it was made."""
    from ottla.errors import OttlaError

    made = 0
    for portion in portions(changes):
        try:
            _ACTIONS[type(portion[0])](admin, portion, secrets, False)
        except OttlaError as error:
            made += len(getattr(error, "succeeded", ()))
            raise Failure(
                f"{error}. {made} of {len(changes)} changes were made before; apply it again to go on"
            ) from None
        for each in portion:
            report(each)
        made += len(portion)


def portions(changes: Sequence[Change]) -> Iterator[list[Any]]:
    """Neighbours of one kind together; passwords one by one, since a broker takes one of a user at a time."""
    for kind, group in groupby(changes, key=type):
        limit = 1 if kind in (SetPassword, DeletePassword) else PORTION
        rest = iter(group)
        while portion := list(islice(rest, limit)):
            yield portion


def _create_topics(admin: Admin, changes: Sequence[CreateTopic], _: Secrets, validate_only: bool) -> None:
    from ottla.client.admin.topics import NewTopic

    topics = [NewTopic(name, topic.partitions, topic.replication, dict(topic.settings)) for name, topic in changes]
    admin.create_topics(topics, validate_only=validate_only)


def _grow_topics(admin: Admin, changes: Sequence[GrowTopic], _: Secrets, validate_only: bool) -> None:
    admin.create_partitions({each.name: each.after for each in changes}, validate_only=validate_only)


def _set_configs(admin: Admin, changes: Sequence[SetConfig], secrets: Secrets, validate_only: bool) -> None:
    from ottla.client.admin.configs import AlterConfig, AlterOperation

    wanted: dict[ConfigResource, list[AlterConfig]] = {}
    for each in changes:
        value = secrets[each.after] if isinstance(each.after, SecretSource) else each.after
        operation = AlterOperation.DELETE if value is None else AlterOperation.SET
        wanted.setdefault(each.resource, []).append(AlterConfig(each.name, value, operation))
    admin.incremental_alter_configs(wanted, validate_only=validate_only)


def _set_passwords(admin: Admin, changes: Sequence[SetPassword], secrets: Secrets, _: bool) -> None:
    from ottla.client.admin.credentials import ScramUpsertion

    admin.alter_user_scram_credentials(
        ScramUpsertion(each.user, secrets[each.password], each.mechanism, each.iterations or DEFAULT_ITERATIONS)
        for each in changes
    )


def _delete_passwords(admin: Admin, changes: Sequence[DeletePassword], _: Secrets, __: bool) -> None:
    from ottla.client.admin.credentials import ScramDeletion

    admin.alter_user_scram_credentials(ScramDeletion(each.user, each.mechanism) for each in changes)


def _set_quotas(admin: Admin, changes: Sequence[SetQuota], _: Secrets, validate_only: bool) -> None:
    wanted: dict[EntityKey, dict[str, float | None]] = {}
    for each in changes:
        wanted.setdefault(each.entity, {})[each.name] = each.after
    admin.alter_client_quotas(
        [(dict(entity), limits) for entity, limits in wanted.items()], validate_only=validate_only
    )


def _add_rules(admin: Admin, changes: Sequence[AddRule], _: Secrets, __: bool) -> None:
    admin.create_acls([each.rule for each in changes])


def _remove_rules(admin: Admin, changes: Sequence[RemoveRule], _: Secrets, __: bool) -> None:
    from ottla.client.admin.access import AclFilter

    admin.delete_acls([AclFilter(*each.rule) for each in changes])


def _delete_topics(admin: Admin, changes: Sequence[DeleteTopic], _: Secrets, __: bool) -> None:
    admin.delete_topics([each.name for each in changes])


_ACTIONS: Final[Mapping[type, Callable[[Admin, Any, Secrets, bool], None]]] = {
    CreateTopic: _create_topics,
    GrowTopic: _grow_topics,
    SetConfig: _set_configs,
    SetPassword: _set_passwords,
    SetQuota: _set_quotas,
    AddRule: _add_rules,
    RemoveRule: _remove_rules,
    DeletePassword: _delete_passwords,
    DeleteTopic: _delete_topics,
}
