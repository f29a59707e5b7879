"""The contract of readers: where a table is, and what its columns are called."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.table_settings import TableSettings
from ottla.tables.finding import RECORD_COLUMNS, column_of, field_of, table_of

NAMES = st.sampled_from([*RECORD_COLUMNS, "Key", "value_key", "value_value_VALUE", "value_x", "x", "valuekey"])


def test_a_topic_has_a_table_where_its_settings_say(tmp_path):
    assert table_of("clicks", TableSettings()) is None
    delta = TableSettings({"ottla.table.mode": "raw", "ottla.table.location": f"{tmp_path}/{{topic}}"})
    table = table_of("clicks", delta)
    assert (table.format, table.location, table.catalog) == ("delta", f"file://{tmp_path}/clicks", None)
    iceberg = delta.replaced({"ottla.table.format": "iceberg"})
    table = table_of("clicks", iceberg)
    assert (table.catalog, table.identifier) == (f"sqlite:///{tmp_path}/catalog.db", ("ottla", "clicks"))
    far = iceberg.replaced({"ottla.table.location": "s3://lake/{topic}", "ottla.table.namespace": "web.prod"})
    table = table_of("clicks", far, {"s3.secret-access-key": "hush"})
    assert (table.location, table.catalog, table.identifier) == ("s3://lake/clicks", None, ("web", "prod", "clicks"))
    assert "hush" not in repr(table)


def test_fields_with_the_names_of_the_record_have_others_in_the_table():
    assert [column_of(name) for name in ("id", "timestamp", "Key")] == ["id", "value_timestamp", "value_Key"]
    assert [field_of(name) for name in ("id", "timestamp", "value_timestamp")] == ["id", None, "timestamp"]


@given(NAMES | st.text())
def test_every_field_comes_back_from_its_column(name):
    column = column_of(name)
    assert column.casefold() not in RECORD_COLUMNS
    assert field_of(column) == name


@given(st.sets(NAMES | st.text()))
def test_two_fields_never_become_one_column(names):
    assert len({column_of(name) for name in names}) == len(names)
