"""Host names that have an address, and texts that are one."""

import asyncio

import pytest

from ottla.broker.requests import host_names
from ottla.clock import SystemClock


@pytest.mark.parametrize("text", ["127.0.0.1", "::1", "2001:db8::7"])
def test_an_address_needs_no_look_up(text):
    assert host_names.is_address(text)


@pytest.mark.parametrize("text", ["localhost", "1.2.3", "", "300.0.0.1"])
def test_other_texts_are_no_address(text):
    assert not host_names.is_address(text)


def test_names_are_looked_up_together():
    assert asyncio.run(host_names.look_up({"localhost", "x" * 70}, SystemClock())) == {"localhost"}
