"""Which quota holds for a client: the whole table of precedence."""

from __future__ import annotations

from itertools import combinations

import pytest

from ottla.broker.quotas.limits import FETCH, PRODUCE, Owner, address_limits_of, limits_of

# In the order of Kafka's documents, with who shares a quota that was found there.
TABLE = [
    ({"user": "anna", "client-id": "shop"}, Owner("anna", "shop")),
    ({"user": "anna", "client-id": None}, Owner("anna", "shop")),
    ({"user": "anna"}, Owner("anna", "")),
    ({"user": None, "client-id": "shop"}, Owner("anna", "shop")),
    ({"user": None, "client-id": None}, Owner("anna", "shop")),
    ({"user": None}, Owner("anna", "")),
    ({"client-id": "shop"}, Owner("", "shop")),
    ({"client-id": None}, Owner("", "shop")),
]
EVERY_SET = [chosen for count in range(9) for chosen in combinations(range(8), count)]
OTHERS = [
    ({"user": "bert", "client-id": "shop"}, 901.0),
    ({"user": "bert"}, 902.0),
    ({"client-id": "till"}, 903.0),
    ({"ip": "10.0.0.1"}, 904.0),
]


def quotas(chosen, key=PRODUCE):
    entries = [(TABLE[number][0], 100.0 + number) for number in chosen] + OTHERS
    return [(tuple(sorted(names.items())), {key: limit}) for names, limit in entries]


@pytest.mark.parametrize("count", range(9))
def test_the_first_of_the_table_that_is_set_holds(count):
    for chosen in (each for each in EVERY_SET if len(each) == count):
        found = limits_of(quotas(chosen), PRODUCE).find("anna", "shop")
        expected = (TABLE[chosen[0]][1], 100.0 + chosen[0]) if chosen else None
        assert found == expected, chosen


def test_every_set_of_quotas_gives_whoever_shares_one_the_limit_that_was_found():
    for chosen in EVERY_SET:
        limits = limits_of(quotas(chosen), PRODUCE)
        found = limits.find("anna", "shop")
        if found is not None:
            assert limits.of(found[0]) == found[1], chosen


def test_who_has_no_client_id_has_no_quota_of_client_ids():
    everything = limits_of(quotas(range(8)), PRODUCE)
    assert everything.find("anna", "") == (Owner("anna", ""), 102.0)
    assert everything.find("emil", "") == (Owner("emil", ""), 105.0)
    assert limits_of(quotas([6, 7]), PRODUCE).find("anna", "") is None


def test_a_default_is_for_each_of_those_it_stands_for():
    limits = limits_of(quotas([7]), PRODUCE)
    assert limits.find("anna", "a") == (Owner("", "a"), 107.0)
    assert limits.find("anna", "b") == (Owner("", "b"), 107.0)
    assert limits.find("anna", "till") == (Owner("", "till"), 903.0)


def test_one_kind_of_quota_says_nothing_of_another():
    assert not limits_of(quotas([6], PRODUCE), FETCH)


def test_addresses_have_limits_of_their_own():
    entries = [
        ((("ip", "10.0.0.1"),), {"connection_creation_rate": 5.0}),
        ((("ip", None),), {"connection_creation_rate": 9.0}),
    ]
    assert address_limits_of([*entries, *quotas([2])]) == {"10.0.0.1": 5.0, None: 9.0}
