"""What a table needs before a batch fits: types by a slow twin that tries values, rows by what they were before."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.schemas.arrow.evolution import Added, Evolution, Unfit, Widened, evolution, fitted, widest

INTS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
FLOATS = {pa.float32(): numpy.float32, pa.float64(): numpy.float64}
DECIMALS = [pa.decimal128(precision, scale) for precision in range(1, 39) for scale in range(precision + 1)]
FORMS = ((1, 0), (1, 1), (5, 2), (9, 9), (30, 4), (38, 0), (38, 37))
FEW_DECIMALS = [pa.decimal128(precision, scale) for precision, scale in FORMS]


# --- the twin: a type holds another when it holds its odd values ---


def odd_values(kind):
    if kind in INTS:
        limit = 1 << (INTS[kind] - 1)
        return [Fraction(value) for value in (-limit, limit - 1, 1)]
    if kind in FLOATS:
        limits = numpy.finfo(FLOATS[kind])
        values = (limits.max, limits.smallest_subnormal, 1 + limits.eps)
        return [Fraction(float(value)) for value in values]
    return [Fraction(10**kind.precision - 1, 10**kind.scale), Fraction(1, 10**kind.scale)]


def holds(kind, value):
    if kind in INTS:
        return value.denominator == 1 and -(1 << (INTS[kind] - 1)) <= value < 1 << (INTS[kind] - 1)
    if kind in FLOATS:
        with numpy.errstate(over="ignore"):
            try:
                return Fraction(float(FLOATS[kind](float(value)))) == value
            except OverflowError:
                return False
    unscaled = value * 10**kind.scale
    return unscaled.denominator == 1 and abs(unscaled) < 10**kind.precision


def slow_widest(one, other):
    family = DECIMALS if pa.types.is_decimal(one) else [*INTS, *FLOATS]
    if other not in family:
        return None
    values = [*odd_values(one), *odd_values(other)]
    return next((kind for kind in family if all(holds(kind, value) for value in values)), None)


@pytest.mark.parametrize("one", [*INTS, *FLOATS, *FEW_DECIMALS], ids=str)
def test_the_widest_of_two_numbers_is_the_narrowest_that_holds_both(one):
    for other in (*INTS, *FLOATS, *FEW_DECIMALS):
        assert widest(one, other) == slow_widest(one, other), (one, other)


# --- rows ---

VALUES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.decimal128(5, 2): st.integers(-99_999, 99_999).map(lambda digits: Decimal(digits).scaleb(-2)),
    pa.decimal128(9, 1): st.integers(-999_999_999, 999_999_999).map(lambda digits: Decimal(digits).scaleb(-1)),
    pa.string(): st.text(max_size=3),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(datetime.UTC)),
}
kinds = st.recursive(
    st.sampled_from(list(VALUES)),
    lambda inner: (
        st.builds(pa.list_, inner)
        | st.builds(lambda item: pa.map_(pa.string(), item), inner)
        | st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=3).map(
            lambda one: pa.struct(one.items())
        )
    ),
    max_leaves=3,
)
schemas = st.dictionaries(st.sampled_from("abcde"), kinds, min_size=1, max_size=4).map(
    lambda one: pa.schema(one.items())
)


def values_of(kind):
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({field.name: values_of(field.type) for field in kind})
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=2)
    if pa.types.is_map(kind):
        texts = st.text(max_size=1)
        return st.none() | st.dictionaries(texts, values_of(kind.item_type), max_size=2).map(
            lambda one: list(one.items())
        )
    return st.none() | VALUES[kind]


def rows_of(schema):
    return st.lists(values_of(pa.struct(list(schema))).filter(lambda row: row is not None), max_size=4)


def seen(value, kind):
    """A value as a reader of this type sees it: what it has not is null, other names do not come."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: seen(value.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [seen(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return [(key, seen(item, kind.item_type)) for key, item in value]
    return value


@settings(max_examples=200)
@given(st.data())
def test_rows_of_the_table_and_of_the_batch_keep_their_values(data):
    table = data.draw(schemas)
    batch = data.draw(schemas | st.just(table))
    change = evolution(table, batch)
    if isinstance(change, Unfit):
        assert "column" in change.reason
        return
    assert change.schema.names[: len(table.names)] == table.names
    assert set(change.schema.names) == {*table.names, *batch.names}
    assert (change.schema == table) is (not change.added and not change.widened)
    assert evolution(change.schema, batch) == evolution(change.schema, table) == Evolution(change.schema, (), ())
    for schema in (table, batch):
        rows = data.draw(rows_of(schema))
        given_rows = pa.RecordBatch.from_pylist(rows, schema=schema)
        start = data.draw(st.integers(0, len(rows)))
        found = fitted(given_rows.slice(start), change.schema)
        found.validate(full=True)
        assert found.to_pylist() == [seen(row, pa.struct(list(change.schema))) for row in rows[start:]]


# --- by example ---


def columns(*fields):
    return pa.schema([pa.field(*field) for field in fields])


def test_a_batch_with_other_columns_in_another_order():
    table = columns(("id", pa.int32()), ("place", pa.struct([("x", pa.float32())])), ("tags", pa.list_(pa.string())))
    batch = columns(
        ("note", pa.string()), ("place", pa.struct([("y", pa.int64()), ("x", pa.float64())])), ("id", pa.int64())
    )
    change = evolution(table, batch)
    assert change.schema.names == ["id", "place", "tags", "note"]
    assert change.added == (Added(("place", "y"), pa.int64()), Added(("note",), pa.string()))
    assert change.widened == (
        Widened(("id",), pa.int32(), pa.int64()),
        Widened(("place", "x"), pa.float32(), pa.float64()),
    )
    row = fitted(
        pa.RecordBatch.from_pylist([{"note": "n", "place": {"y": 1, "x": 0.5}, "id": 7}], schema=batch), change.schema
    )
    assert row.to_pylist() == [{"id": 7, "place": {"x": 0.5, "y": 1}, "tags": None, "note": "n"}]


@pytest.mark.parametrize(
    ("table", "batch", "reason"),
    [
        ([("a", pa.int64())], [("a", pa.float64())],
         "column a is int64 in the table and double in the batch, and no type holds both"),
        ([("a", pa.string())], [("a", pa.int32())], "no type holds both"),
        ([("a", pa.date32())], [("a", pa.timestamp("us"))], "no type holds both"),
        ([("a", pa.timestamp("us"))], [("a", pa.timestamp("us", tz="UTC"))], "no type holds both"),
        ([("a", pa.decimal128(38, 0))], [("a", pa.decimal128(5, 2))], "no type holds both"),
        ([("a", pa.list_(pa.string()))], [("a", pa.list_(pa.int32()))], "column a.[] is string"),
        ([("a", pa.map_(pa.string(), pa.int32()))], [("a", pa.map_(pa.int32(), pa.int32()))], "the keys of column a"),
        ([("a", pa.struct([("b", pa.string())]))], [("a", pa.struct([("B", pa.string())]))],
         "column a.B and column a.b differ only in case"),
        ([("a", pa.int32())], [("a", pa.int32()), ("a", pa.int32())], "column a comes twice"),
        ([("a", pa.int32(), False)], [("b", pa.int32())], "must not be null in the table, and the batch lacks it"),
        ([("a", pa.int32(), False)], [("a", pa.int32())], "must not be null in the table, and the batch may have"),
    ],
)  # fmt: skip
def test_why_a_batch_can_never_fit(table, batch, reason):
    found = evolution(columns(*table), columns(*batch))
    assert isinstance(found, Unfit)
    assert reason in found.reason


def test_the_table_keeps_its_metadata_and_its_nullability():
    table = pa.schema([pa.field("a", pa.int32(), False, {"id": "1"})], metadata={"owner": "me"})
    change = evolution(table, columns(("a", pa.int64(), False), ("b", pa.string(), False)))
    assert change.schema.metadata == {b"owner": b"me"}
    assert change.schema.field("a") == pa.field("a", pa.int64(), False)
    assert change.schema.field("a").metadata == {b"id": b"1"}
    assert change.schema.field("b").nullable  # the rows that were there before have none
