"""What a wheel must be able to do where it was just installed: native leaves, a broker, a record there and back."""

import sys

import ottla
import ottla.records
from ottla.testing import KafkaBroker


def main() -> None:
    assert ottla.records.CHOSEN == "native" or "--python" in sys.argv, "the native leaves are not in this wheel"
    with KafkaBroker() as broker:
        with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("tried", b"a record")
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        with ottla.Consumer(settings) as consumer:
            consumer.subscribe(["tried"])
            records = consumer.poll(60)
    assert [record.value for record in records] == [b"a record"], records
    print(f"ottla {ottla.__version__} works here: {ottla.records.CHOSEN} leaves, {ottla.__file__}")


if __name__ == "__main__":
    main()
