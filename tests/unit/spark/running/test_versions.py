"""Which PySpark can do what."""

import pytest

pyspark = pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")

from ottla.spark.datasource import OttlaSource  # noqa: E402
from ottla.spark.running.versions import SparkTooOld, has_streams  # noqa: E402


@pytest.mark.parametrize(
    ("version", "found"),
    [("4.0.0", False), ("4.1.1", False), ("4.2.0", True), ("4.3.0", True), ("4.10.0", True), ("5.0.0.dev1", True)],
)
def test_streams_are_there_from_4_2_on(version, found):
    assert has_streams(version) is found


@pytest.mark.parametrize(
    "stream", [OttlaSource.streamReader, lambda source, schema: source.streamWriter(schema, False)]
)
def test_a_stream_on_an_older_spark_is_refused_with_a_sentence(monkeypatch, stream):
    monkeypatch.setattr(pyspark, "__version__", "4.1.1")
    with pytest.raises(SparkTooOld, match=r"4\.1\.1.*PySpark 4\.2 or later"):
        stream(OttlaSource({}), None)
