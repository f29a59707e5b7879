"""What calls of both faces do with what they are given and what they give back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.admin.later import loaded_when_used
from ottla.client.admin.plans import PartlyFailed
from ottla.client.arguments import topic_of, whole_number
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin import configs, topics
else:
    configs, topics = map(loaded_when_used, ("configs", "topics"))

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def several(names: Iterable[K]) -> list[K]:
    """A list of names. A single text would be taken for a list of its letters, which is never meant."""
    if isinstance(names, str | bytes):
        raise TypeError(f"a list of names is wanted, not one: write [{names!r}]")
    return [_name(each) for each in dict.fromkeys(_all(names, "a list of names"))]


def new_topics(value: Iterable[topics.NewTopic | str]) -> dict[str, topics.NewTopic]:
    """Topics to make, by name; a plain name gets the cluster's defaults."""
    if isinstance(value, str | topics.NewTopic):
        raise TypeError(f"a list of topics is wanted, not one: write [{value!r}]")
    if isinstance(value, Mapping):  # its values would be passed over
        raise TypeError("a list of topics is wanted, not a mapping: write [NewTopic(name, partitions), ...]")
    wanted = [topics.NewTopic(each) if isinstance(each, str) else each for each in _all(value, "a list of topics")]
    for each in wanted:
        if not isinstance(each, topics.NewTopic):
            raise TypeError(f"a topic to make is a NewTopic or a name, not {each!r}")
        topic_of(each.name)
        for number, what in ((each.num_partitions, "num_partitions"), (each.replication_factor, "replication_factor")):
            if number is not None:
                whole_number(number, what)
        by_name(each.configs, "settings by name")
    return {each.name: each for each in wanted}


def by_name(value: Mapping[K, V], what: str) -> Mapping[K, V]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} are wanted as a mapping, not {value!r}")
    return value


def config_resources(value: Iterable[Any]) -> list[configs.ConfigResource]:
    found = _all(value, "a list of ConfigResource")
    for each in found:
        if not isinstance(each, configs.ConfigResource):
            raise TypeError(f"what has settings is ConfigResource(ConfigResourceType.TOPIC, name), say, not {each!r}")
    return found


def _name(value: Any) -> Any:
    """Ids of topics are bytes, replicas are tuples."""
    if not isinstance(value, str | bytes | tuple):
        raise TypeError(f"a name is text, not {value!r}")
    return value


def _all(value: Iterable[Any], what: str) -> list[Any]:
    if not isinstance(value, Iterable):
        raise TypeError(f"{what} is wanted, not {value!r}")
    return list(value)


def raise_failed(endings: Mapping[Any, OttlaError | None], results: Mapping[Any, Any] | None = None) -> None:
    """Raise what went wrong with the parts of one thing, as the room's story says; with what the others gave."""
    failed = {key: error for key, error in endings.items() if error is not None}
    if failed and len(endings) == 1:
        raise next(iter(failed.values()))
    if failed:
        succeeded = {key: None for key, error in endings.items() if error is None}
        raise PartlyFailed(succeeded if results is None else results, failed)
