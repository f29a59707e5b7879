"""The session of a pipeline, as far as it goes without Spark."""

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: pip install 'ottla[spark]'")
pytest.importorskip("grpc", reason="needs PySpark: pip install 'ottla[spark]'")

from ottla.spark.pipelines.connecting import SparkUnreachable, open_session


@pytest.mark.parametrize("address", ["sc://127.0.0.1:1", "sc://127.0.0.1:none"])
def test_an_address_where_nobody_is_is_told_at_once(address):
    with pytest.raises(SparkUnreachable, match=address), open_session("x", remote=address, settings={}):
        pass
