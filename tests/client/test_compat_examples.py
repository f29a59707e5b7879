"""The programs that the libraries publish run on our shims, and give what they give with the originals.

They are read from the installed packages, never copied: the code blocks of their README (in the metadata of the
distribution) and the programs that are part of a package. Changed are only the address and the names of topics, for
both; the import is changed by `ottla.compat.run_as`, which edits nothing.
"""

import importlib.metadata
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from tests.patience import HANG_S
from tests.schema_registry import LISTENER, url_of

from ottla import Consumer
from ottla.testing.broker import KafkaBroker

SIDES = ("theirs", "ours")


def readme_blocks(distribution):
    """The Python code of a README, Markdown or reStructuredText."""
    text = (
        importlib.metadata.metadata(distribution).get_payload()
        or importlib.metadata.metadata(distribution)["Description"]
    )
    marked = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    directives = re.findall(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", text)
    return marked + [textwrap.dedent(block) for block in directives]


def block_with(distribution, *words):
    found = [each for each in readme_blocks(distribution) if all(word in each for word in words)]
    assert found, f"the README of {distribution} has no example with {words}"
    return found[0]


class Running:
    """A program, and the lines it has printed."""

    def __init__(self, library, side, path, *arguments):
        runner = ["-m", "ottla.compat.run_as", library] if side == "ours" else []
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-W", "ignore", *runner, str(path), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines = []

    def until(self, count):
        """Its first lines, then it is ended: examples of consumers never end by themselves, and one that was started by
        a shell's background job does not hear SIGINT."""
        limit = threading.Timer(HANG_S, self.process.kill)
        limit.start()
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if len(self.lines) >= count:
                break
        limit.cancel()
        self.process.terminate()
        _, errors = self.process.communicate(timeout=HANG_S)
        assert len(self.lines) >= count, errors
        return self.lines

    def to_the_end(self):
        output, errors = self.process.communicate(timeout=HANG_S)
        assert self.process.returncode == 0, errors
        return output.splitlines()


def written(tmp_path, name, source):
    path = tmp_path / f"{name}.py"
    path.write_text(source)
    return path


def records_of(servers, topic, count):
    """What is in a topic: key, value and headers, in the order of the log."""
    found = []
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "group_id": f"check-{topic}"}
    with Consumer(topic, bootstrap_servers=servers, **settings) as consumer:
        while len(found) < count:
            found += [(each.key, each.value, list(map(tuple, each.headers))) for each in consumer.poll(5)]
    return found


def test_the_readme_of_aiokafka(kafka_broker_fresh, tmp_path):
    servers = kafka_broker_fresh.bootstrap_servers
    seen = {}
    for side in SIDES:
        produce = block_with("aiokafka", "AIOKafkaProducer").replace("localhost:9092", servers)
        consume = block_with("aiokafka", "AIOKafkaConsumer").replace("localhost:9092", servers)
        consume = consume.replace('group_id="my-group"', f'group_id="{side}", auto_offset_reset="earliest"')
        for _ in range(2):
            program = written(tmp_path, "produce", produce.replace("my_topic", f"topic-{side}"))
            assert Running("aiokafka", side, program).to_the_end() == []
        consume = consume.replace("my_topic", f"topic-{side}").replace("my_other_topic", f"topic-{side}")
        lines = Running("aiokafka", side, written(tmp_path, "consume", consume)).until(2)
        seen[side] = [re.sub(r" \d{13}$", " TIME", line).replace(side, "SIDE") for line in lines]
    assert seen["ours"] == seen["theirs"]
    assert seen["ours"][0] == "consumed:  topic-SIDE 0 0 None b'Super message' TIME"


@pytest.mark.long
def test_the_readme_of_confluent_kafka(kafka_broker_fresh, tmp_path):
    servers = kafka_broker_fresh.bootstrap_servers
    seen = {}
    for side in SIDES:

        def changed(source, side=side):
            found = source.replace("mybroker", servers).replace("mytopic", f"my-{side}").replace("mygroup", side)
            return found.replace('"topic1", "topic2"', f'"one-{side}", "two-{side}"')

        admin = changed(block_with("confluent-kafka", "AdminClient", "create_topics"))
        seen[side] = Running("confluent_kafka", side, written(tmp_path, "admin", admin)).to_the_end()
        seen[side] += Running("confluent_kafka", side, tmp_path / "admin.py").to_the_end()
        produce = changed(block_with("confluent-kafka", "AIOProducer", "asyncio.run"))
        seen[side] += Running("confluent_kafka", side, written(tmp_path, "aio", produce)).to_the_end()
        consume = changed(block_with("confluent-kafka", "c.poll(1.0)"))
        seen[side] += Running("confluent_kafka", side, written(tmp_path, "consume", consume)).until(1)
    shown = {side: [line.replace(side, "SIDE").partition(",str=")[0] for line in seen[side]] for side in SIDES}
    assert shown["ours"] == shown["theirs"]
    assert shown["ours"][-1] == "Received message: hello"


REGISTRY_PREAMBLES = {
    "JSONSerializer": 'some_data_source = [{"name": "ada", "favorite_number": 7}]\n',
    "user_schema_str": textwrap.dedent("""
        import types
        from confluent_kafka.serialization import MessageField, SerializationContext
        user_schema_str = '{"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}'
        some_user_object = types.SimpleNamespace(to_dict=lambda: {"name": "ada"})
    """),
    "AsyncAvroSerializer(": textwrap.dedent("""
        from confluent_kafka.serialization import MessageField, SerializationContext
        avro_schema = '{"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}'
        data = {"name": "ada"}
    """),
}


@pytest.mark.long
@pytest.mark.parametrize("word", REGISTRY_PREAMBLES)
def test_the_readme_of_confluent_kafka_with_a_schema_registry(word, tmp_path):
    """What a block leaves to its reader (a schema, a user) stands before it; what it wrote is compared."""
    seen = {}
    with KafkaBroker(LISTENER) as broker:
        url = url_of(broker.info.http_parts)
        for side in SIDES:
            source = block_with("confluent-kafka", word).replace("http://localhost:8081", url)
            source = re.sub(r"mybroker1,mybroker2|localhost:9092", broker.bootstrap_servers, source)
            topic = f"{side}-topic"
            source = re.sub(r"(['\"])(mytopic|my-topic|topic)(['\"])", rf"\1{topic}\3", source)
            source = source.replace(
                "avro_serializer(some_user_object)",
                f"avro_serializer(some_user_object, SerializationContext('{topic}', MessageField.VALUE))",
            )
            if "await " in source:
                source += "\nawait delivery_future\nawait producer.close()\n"
                source = f"import asyncio\nasync def main():\n{textwrap.indent(source, '    ')}\nasyncio.run(main())\n"
            program = written(tmp_path, "produce", REGISTRY_PREAMBLES[word] + source)
            lines = Running("confluent_kafka", side, program).to_the_end()
            records = records_of(broker.bootstrap_servers, topic, 1)
            seen[side] = (
                [line.replace(side, "SIDE") for line in lines],
                [(key, value[:1], value[5:], headers) for key, value, headers in records],
            )
    assert seen["ours"] == seen["theirs"]


@pytest.mark.long
def test_the_readme_of_kafka_python(kafka_broker_fresh, tmp_path):
    """Its producer examples are one program in parts; what they leave in the topics is compared."""
    servers = kafka_broker_fresh.bootstrap_servers
    seen = {}
    for side in SIDES:
        blocks = [each for each in readme_blocks("kafka-python") if "producer" in each and "Consumer" not in each]
        blocks.sort(key=lambda block: "transactional_id" in block)  # after it this producer only sends in transactions
        source = "\n".join(blocks).replace("bootstrap_servers='localhost:1234'", "")
        source = source.replace("KafkaProducer(", f"KafkaProducer(bootstrap_servers='{servers}', ")
        for topic in ("foobar", "fizzbuzz", "flipflap", "txn_topic"):
            source = source.replace(f"'{topic}'", f"'{topic}-{side}'")
        source = re.sub(r"^(producer = )", r"globals().get('producer') and producer.close()\n\1", source, flags=re.M)
        program = written(tmp_path, "produce", source + "\nproducer.close()\nprint(sorted(metrics)[:0])")
        assert Running("kafka", side, program).to_the_end() == ["[]"]
        counts = {"foobar": 1103, "fizzbuzz": 1, "flipflap": 1, "txn_topic": 1}
        seen[side] = {name: records_of(servers, f"{name}-{side}", count) for name, count in counts.items()}
    assert seen["ours"] == seen["theirs"]
    assert seen["ours"]["txn_topic"] == [(None, b"yes", [])]
    for side in SIDES:
        consume = block_with("kafka-python", "isolation_level=IsolationLevel").replace("txn_topic", f"txn_topic-{side}")
        consume = consume.replace("KafkaConsumer(", f"KafkaConsumer(bootstrap_servers='{servers}', ")
        consume = consume.replace("READ_COMMITTED)", "READ_COMMITTED, auto_offset_reset='earliest')")
        (line,) = Running("kafka", side, written(tmp_path, "consume", consume)).until(1)
        seen[side] = re.sub(r"timestamp=\d+", "timestamp=TIME", line).replace(side, "SIDE")
    assert seen["ours"] == seen["theirs"]


@pytest.mark.long
def test_the_load_example_that_kafka_python_ships(kafka_broker_fresh):
    servers = kafka_broker_fresh.bootstrap_servers
    program = Path(importlib.metadata.distribution("kafka-python").locate_file("kafka/benchmarks/load_example.py"))
    for side in SIDES:
        arguments = [
            "--bootstrap-servers",
            servers,
            "--topic",
            f"load-{side}",
            "--msg-size",
            "1000",
            "--load-time",
            "3",
        ]
        lines = Running("kafka", side, program, *arguments).to_the_end()
        numbers = {name: int(count) for name, count in (line.split(": ") for line in lines if ": " in line)}
        assert numbers["Messages invalid"] == 0
        assert numbers["Messages sent"] > 0
        assert numbers["Messages recvd"] > 0
