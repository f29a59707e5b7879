"""Settings of topics, brokers and groups with their documentation, and changes of them: DescribeConfigs and
IncrementalAlterConfigs as who calls."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from ottla.broker.http.call import Call
from ottla.broker.http.parts import KNOWN, HttpError, Json, Reply, Route, reply
from ottla.cluster.model import ResourceType
from ottla.errors import raise_for_code
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

KINDS: Final = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER, "group": ResourceType.GROUP}
SOURCES: Final = {
    1: "topic",
    2: "this broker",
    3: "all brokers",
    4: "the broker's file",
    5: "default",
    6: "log levels",
    8: "group",
}
TYPES: Final = dict(
    enumerate(("boolean", "string", "int", "short", "long", "double", "list", "class", "password"), start=1)
)
SET: Final = 0
DELETE: Final = 1


async def read_settings(call: Call) -> Reply:
    kind, name = _kind(call), call.path["name"]
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    answer = await call.ask(
        DescribeConfigsRequest(resources=[asked], include_documentation=True), DescribeConfigsResponse
    )
    (found,) = answer.results
    raise_for_code(found.error_code, found.error_message)
    configs = sorted(found.configs, key=lambda each: each.name)
    return reply({"kind": call.path["kind"], "name": name, "settings": [_setting(each) for each in configs]})


def _setting(each: DescribeConfigsResourceResult) -> Json:
    return {
        "name": each.name,
        "value": None if each.is_sensitive else each.value,
        "is_sensitive": each.is_sensitive,
        "is_read_only": each.read_only,
        "is_default": each.config_source in (4, 5) or each.config_source == -1,
        "source": SOURCES.get(each.config_source, "unknown"),
        "type": TYPES.get(each.config_type, "string"),
        "doc": each.documentation or "",
    }


async def change_setting(call: Call) -> Reply:
    """One setting; None takes back what was set."""
    kind, name, sent = _kind(call), call.path["name"], call.json()
    setting, value, dry_run = sent.get("setting"), sent.get("value"), sent.get("dry_run", False)
    if not isinstance(setting, str) or not (value is None or isinstance(value, str)):
        raise HttpError(HTTPStatus.BAD_REQUEST, "send the name of a setting, and its value as text or null")
    change = AlterableConfig(name=setting, config_operation=DELETE if value is None else SET, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry_run is True)
    answer = await call.ask(request, IncrementalAlterConfigsResponse)
    (found,) = answer.responses
    raise_for_code(found.error_code, found.error_message)
    return reply({"setting": setting, "dry_run": dry_run is True})


def _kind(call: Call) -> int:
    kind = KINDS.get(call.path["kind"])
    if kind is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"settings are those of a {', '.join(KINDS)}")
    return kind.value


BODY: Final = {"setting": "its name", "value": "the new value as text; null takes it back", "dry_run": "only check it"}
ROUTES: Final = (
    Route("GET", "/api/settings/{kind}/{name}", read_settings, KNOWN, "Settings with their documentation."),
    Route("POST", "/api/settings/{kind}/{name}", change_setting, KNOWN, "Change a setting.", body=BODY),
)
