"""Tables in S3, as moto has it: the same rows, credentials by the environment, a clear word where there are none."""

import contextlib
import socket
import subprocess
import sys
import time

import boto3
import pytest
from tests.patience import HANG_S
from tests.unit.tables.topics import Lake, run, write

from ottla.errors import InvalidSetting
from ottla.table_settings import TableSettings
from ottla.tables.checking import check_table
from ottla.tables.finding import table_of
from ottla.tables.formats import UpkeepRules
from ottla.testing.broker import KafkaBroker

BUCKET = "lake"
SECRET = "hush-this-is-no-key-of-anybody"


@pytest.fixture(scope="module")
def servers():
    with KafkaBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def endpoint():
    # A process of its own: delta-rs keeps Python's lock while it writes, so a server beside it would never answer.
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        end = time.monotonic() + HANG_S
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
        yield f"http://127.0.0.1:{port}"
        server.kill()


@pytest.fixture
def s3(endpoint, monkeypatch):
    """The usual chain: what the environment says."""
    found = {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    yield client
    listed = client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    for each in listed:
        client.delete_object(Bucket=BUCKET, Key=each["Key"])
    client.delete_bucket(Bucket=BUCKET)


@pytest.fixture(params=["delta", "iceberg"])
def lake(request, servers, tmp_path):
    made = Lake(servers, f"s3://{BUCKET}/tables", request.param)
    made.catalog = f"sqlite:///{tmp_path}/catalog.db"
    yield made
    made.cluster.close()


def settings(lake, mode="json"):
    return lake.settings(mode, **{"ottla.table.catalog": lake.catalog})


def test_a_topic_becomes_a_table_in_s3(lake, s3):
    topic = f"clicks-{lake.form}"
    lake.cluster.admin().create_topics([topic])
    write(lake.servers, topic, [{"id": number} for number in range(50)])
    loop = lake.loop(topic, settings(lake))
    run(lake, loop)
    write(lake.servers, topic, [{"id": 50, "more": "x"}])
    run(lake, loop)
    where = table_of(topic, settings(lake))
    snapshot = where.snapshot()
    assert snapshot.marker.next_offsets == {0: 51}
    assert [file.uri.partition("://")[0] for file in snapshot.files] == ["s3"] * 2
    (checked,) = check_table(where, snapshot, lake.cluster)
    assert (checked.rows, checked.doubled, checked.missing, checked.strange) == (51, 0, 0, 0)
    done = loop._table().upkeep(UpkeepRules(1_000_000, 0, -1), 4_000_000_000_000)
    assert done.compacted_files == 2
    assert check_table(where, where.snapshot(), lake.cluster)[0].rows == 51
    where.opened().drop()
    assert where.snapshot() is None
    lake.cluster.admin().delete_topics([topic])


def test_two_commits_on_one_version_are_one_in_s3_too(lake, s3):
    topic = f"twins-{lake.form}"
    lake.cluster.admin().create_topics([topic])
    write(lake.servers, topic, [{"id": 1}])
    first, second = (lake.loop(topic, settings(lake)) for _ in range(2))
    run(lake, first)
    run(lake, second)
    write(lake.servers, topic, [{"id": 2}])
    run(lake, first, "halted")
    assert "another writer has the table" in first.status.reason
    run(lake, second)
    where = table_of(topic, settings(lake))
    assert check_table(where, where.snapshot(), lake.cluster)[0].doubled == 0
    where.opened().drop()
    lake.cluster.admin().delete_topics([topic])


def test_a_bucket_that_is_not_there_is_a_sentence_without_secrets(lake, s3, caplog):
    topic = f"nowhere-{lake.form}"
    lake.cluster.admin().create_topics([topic])
    elsewhere = settings(lake).replaced({"ottla.table.location": "s3://no-such-bucket/{topic}"})
    loop = lake.loop(topic, elsewhere)
    run(lake, loop, "failing", steps=5)
    assert "bucket" in loop.status.reason.lower()
    assert SECRET not in caplog.text + loop.status.reason
    lake.cluster.admin().delete_topics([topic])


def test_iceberg_in_a_store_wants_the_name_of_a_catalog(servers):
    wanted = {"mode": "raw", "format": "iceberg", "location": "s3://lake/t"}
    where = table_of("t", TableSettings({f"ottla.table.{name}": value for name, value in wanted.items()}))
    with pytest.raises(InvalidSetting, match=r"set ottla\.table\.catalog, such as"):
        where.snapshot()
