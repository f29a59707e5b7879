"""Host names that have an address, and texts that are one."""

import asyncio

import pytest

from ottla.broker.requests import host_names


@pytest.mark.parametrize("text", ["127.0.0.1", "::1", "2001:db8::7"])
def test_an_address_needs_no_look_up(text):
    assert host_names.is_address(text)


@pytest.mark.parametrize("text", ["localhost", "1.2.3", "", "300.0.0.1"])
def test_other_texts_are_no_address(text):
    assert not host_names.is_address(text)


def test_names_are_looked_up_together():
    async def look_up():
        answer: asyncio.Future[frozenset[str]] = asyncio.get_running_loop().create_future()
        host_names.look_up({"localhost", "x" * 70}).when_given(answer.set_result)
        return await answer

    assert asyncio.run(look_up()) == {"localhost"}
