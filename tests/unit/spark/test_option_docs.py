"""What docs/spark.md says of the options is what the code does."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

from ottla.spark.option_docs import TABLES, with_tables

PAGE = Path(__file__).parents[3] / "docs" / "spark.md"


def test_the_page_has_the_options_of_the_code() -> None:
    page = PAGE.read_text()
    assert with_tables(page) == page, "run: python -m ottla.spark.option_docs"


@pytest.mark.parametrize("name", TABLES)
def test_every_option_is_in_its_table(name: str) -> None:
    page = PAGE.read_text()
    table = page[page.index(f"<!-- options: {name} -->") : page.index(f"<!-- end: {name} -->")]
    assert all(f"`{option.name}`" in table for option in TABLES[name])
