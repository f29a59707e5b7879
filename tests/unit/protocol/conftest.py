"""Every (message, version) there is, as test parameters."""

import importlib
import pkgutil

import pytest

from ottla.protocol import metadata_log, stored
from ottla.protocol.api import APIS
from ottla.protocol.header import RequestHeader, ResponseHeader
from ottla.protocol.schema import Message


def stored_messages() -> list[type[Message]]:
    found = []
    for package in (stored, metadata_log):
        for module in pkgutil.iter_modules(package.__path__):
            names = vars(importlib.import_module(f"{package.__name__}.{module.name}"))
            found += [item for item in names.values() if isinstance(item, type) and issubclass(item, Message)]
    return sorted({item for item in found if item is not Message}, key=lambda item: item.__name__)


def sent_messages() -> list[type[Message]]:
    return [message for api in APIS.values() for message in (api.request, api.response)]


ALL_MESSAGES = [RequestHeader, ResponseHeader, *sent_messages(), *stored_messages()]
ALL_VERSIONS = [(message, version) for message in ALL_MESSAGES for version in message.versions]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"message_class", "version"} <= set(metafunc.fixturenames):
        ids = [f"{message.__name__}-{version}" for message, version in ALL_VERSIONS]
        metafunc.parametrize(("message_class", "version"), ALL_VERSIONS, ids=ids)
    elif "message_class" in metafunc.fixturenames:
        metafunc.parametrize("message_class", ALL_MESSAGES, ids=lambda message: message.__name__)
