"""Every public name, method and argument of the three libraries is in our packages, except what is listed here."""

import importlib
import pkgutil
from pathlib import Path

import confluent_kafka
import pytest
from tests.unit.compat import surface

REGISTRY = "the client, its schemas and the serializers are here; rules and associations are not"
TRANSACTIONS = "use ottla.Admin: list_transactions, describe_transactions, abort_transaction"
MACHINERY = "the library's own machinery, not for programs"
ASSIGNORS = "partition_assignment_strategy takes the classes by name; assignors of a program's own are not possible"

# Modules that are no part of what programs use, and why.
MODULES = {
    "confluent_kafka.avro": REGISTRY,
    "confluent_kafka.schema_registry": REGISTRY,
    "confluent_kafka.kafkatest": "Confluent's own test programs",
    "confluent_kafka.aio.producer": MACHINERY,
    "kafka.benchmarks": MACHINERY,
    "kafka.cli": "commands: use ottla's",
    "kafka.cluster": MACHINERY,
    "kafka.codec": MACHINERY,
    "kafka.consumer.fetcher": MACHINERY,
    "kafka.consumer.subscription_state": MACHINERY,
    "kafka.coordinator.base": MACHINERY,
    "kafka.coordinator.consumer": MACHINERY,
    "kafka.coordinator.heartbeat": MACHINERY,
    "kafka.coordinator.subscription": MACHINERY,
    "kafka.coordinator.assignors.sticky": ASSIGNORS,
    "kafka.metrics": MACHINERY,
    "kafka.net": MACHINERY,
    "kafka.producer.producer_batch": MACHINERY,
    "kafka.producer.record_accumulator": MACHINERY,
    "kafka.producer.sender": MACHINERY,
    "kafka.producer.transaction_manager": MACHINERY,
    "kafka.protocol": MACHINERY,
    "kafka.record": MACHINERY,
    "kafka.util": MACHINERY,
    "kafka.vendor": MACHINERY,
    "aiokafka.client": MACHINERY,
    "aiokafka.cluster": MACHINERY,
    "aiokafka.codec": MACHINERY,
    "aiokafka.conn": MACHINERY,
    "aiokafka.consumer.consumer": MACHINERY,
    "aiokafka.consumer.fetcher": MACHINERY,
    "aiokafka.consumer.group_coordinator": MACHINERY,
    "aiokafka.consumer.subscription_state": MACHINERY,
    "aiokafka.coordinator.assignors.sticky": ASSIGNORS,
    "aiokafka.coordinator.protocol": MACHINERY,
    "aiokafka.coordinator.base": MACHINERY,
    "aiokafka.coordinator.consumer": MACHINERY,
    "aiokafka.producer.message_accumulator": MACHINERY,
    "aiokafka.producer.producer": MACHINERY,
    "aiokafka.producer.sender": MACHINERY,
    "aiokafka.producer.transaction_manager": MACHINERY,
    "aiokafka.protocol": MACHINERY,
    "aiokafka.record": MACHINERY,
    "aiokafka.util": MACHINERY,
}
# Names that are missing, and why; a name stands for what is below it, too.
NAMES = {
    "confluent_kafka.kafkatest": MODULES["confluent_kafka.kafkatest"],
    "confluent_kafka.serializing_producer.K": "a type variable",
    "confluent_kafka.serializing_producer.V": "a type variable",
    "confluent_kafka.deserializing_consumer.K": "a type variable",
    "confluent_kafka.deserializing_consumer.V": "a type variable",
    "kafka.KafkaProducer.DEPRECATED_CONFIGS": MACHINERY,
    "kafka.KafkaProducer.max_usable_produce_magic": MACHINERY,
    **{
        f"kafka.{module}KafkaAdminClient.{name}": why
        for module in ("", "admin.", "admin.client.")
        for name, why in {
            "abort_transaction": TRANSACTIONS,
            "describe_producers": TRANSACTIONS,
            "describe_transactions": TRANSACTIONS,
            "find_hanging_transactions": TRANSACTIONS,
            "list_transactions": TRANSACTIONS,
            "api_versions": "use ottla's command or ottla.Admin",
            "get_broker_version_data": MACHINERY,
            "describe_metadata_quorum": "use ottla.Admin.describe_metadata_quorum",
        }.items()
    },
    "kafka.admin.AbortTransactionSpec": TRANSACTIONS,
    "kafka.admin.PartitionProducerState": TRANSACTIONS,
    "kafka.admin.ProducerState": TRANSACTIONS,
    "kafka.admin.TransactionDescription": TRANSACTIONS,
    "kafka.admin.TransactionListing": TRANSACTIONS,
    "kafka.admin.TransactionState": TRANSACTIONS,
    "kafka.coordinator.assignors": ASSIGNORS,
    "kafka.producer.kafka.PRODUCER_CLIENT_ID_SEQUENCE": MACHINERY,
    "kafka.producer.future.FutureProduceResult": MACHINERY,
    "kafka.producer.KafkaProducer": MACHINERY,
    "kafka.producer.kafka.KafkaProducer": MACHINERY,
    "kafka.producer.future.FutureRecordMetadata": MACHINERY,
    "aiokafka.AIOKafkaClient": MACHINERY,
    "aiokafka.coordinator.assignors": ASSIGNORS,
}
LIBRARIES = ("confluent_kafka", "kafka", "aiokafka")


def is_listed(name, listed):
    return any(name == each or name.startswith((f"{each}.", f"{each}(", f"{each}:")) for each in listed)


def modules_of(library):
    package = importlib.import_module(library)
    yield library
    for found in pkgutil.walk_packages(package.__path__, f"{library}."):
        is_private = any(part.startswith("_") for part in found.name.split(".")[1:])
        if not is_private and not is_listed(found.name, MODULES):
            yield found.name


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_module_and_name_is_there_or_listed_with_a_reason(library):
    missing = []
    for name in modules_of(library):
        theirs = importlib.import_module(name)
        try:
            ours = importlib.import_module(f"ottla.compat.{name}")
        except ModuleNotFoundError:
            missing.append(name)
            continue
        missing += surface.compare_modules(theirs, ours, library)
    assert [each for each in missing if not is_listed(each, NAMES)] == []


def test_the_list_names_nothing_that_is_there():
    """Whoever adds a name takes it from the list."""
    there = []
    for name in NAMES:
        module, _, rest = name.partition(".")
        while module in LIBRARIES or importlib.util.find_spec(f"ottla.compat.{module}") is not None:
            head, _, tail = rest.partition(".")
            if not tail or not is_module(f"ottla.compat.{module}.{head}"):
                break
            module, rest = f"{module}.{head}", tail
        found = importlib.import_module(f"ottla.compat.{module}")
        for part in rest.split("."):
            found = getattr(found, part, None)
        if found is not None and NAMES[name] not in (ASSIGNORS, MACHINERY):
            there.append(name)
    assert there == []


def is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_the_classes_written_in_c_have_the_arguments_of_their_stub():
    """inspect knows nothing of cimpl, so its .pyi file is read."""
    import ottla.compat.confluent_kafka.cimpl as ours

    stub = surface.stub_parameters(Path(confluent_kafka.__path__[0]) / "cimpl.pyi")
    problems = []
    for (kind, method), overloads in stub.items():
        if kind == "_AdminClientImpl" or (method.startswith("_") and method != "__init__"):
            continue
        found = surface.parameters(getattr(getattr(ours, kind), method))
        if method == "__init__" and kind in ("Producer", "Consumer", "ShareConsumer", "KafkaException"):
            continue
        for names in overloads:
            wanted = [{"code": "error"}.get(name, name) for name in names if name != "self"]
            problems += surface.compare_parameters(f"{kind}.{method}", (wanted, False), found)
    assert [each for each in problems if "Exception" not in each] == []


def test_the_numbers_of_cimpl_are_the_same():
    import ottla.compat.confluent_kafka.cimpl as ours

    theirs = {name: getattr(confluent_kafka.cimpl, name) for name in dir(confluent_kafka.cimpl) if name.isupper()}
    assert {name: getattr(ours, name) for name in theirs} == theirs
    error = confluent_kafka.KafkaError
    codes = {name: getattr(error, name) for name in dir(error) if name.isupper() and name[:2] != "__"}
    assert {name: getattr(ours.KafkaError, name) for name in codes} == codes
    assert (ours.version(), ours.libversion()) == (confluent_kafka.version(), confluent_kafka.libversion())


@pytest.mark.parametrize("library", ["kafka", "aiokafka"])
def test_the_errors_of_brokers_have_the_same_names_codes_and_bases(library):
    theirs = importlib.import_module(f"{library}.errors")
    ours = importlib.import_module(f"ottla.compat.{library}.errors")
    for code, error in theirs.kafka_errors.items():
        if code is None:
            continue
        found = ours.for_code(code)
        assert found.__name__ == error.__name__
        assert getattr(ours, error.__name__) is found
        facts = ("errno", "message", "retriable", "invalid_metadata")
        assert [getattr(found, each) for each in facts] == [getattr(error, each) for each in facts], code
        assert [each.__name__ for each in found.__mro__] == [each.__name__ for each in error.__mro__], code
    for name, error in vars(theirs).items():
        if isinstance(error, type) and issubclass(error, BaseException):
            assert [each.__name__ for each in getattr(ours, name).__mro__][1:] == [
                each.__name__ for each in error.__mro__
            ][1:] or name == "IncompatibleBrokerVersion", name
    assert str(ours.for_code(36)("x")) == str(theirs.for_code(36)("x"))
    assert str(ours.for_code(36)()) == str(theirs.for_code(36)())
    assert ours.for_code(999).__name__ == theirs.for_code(999).__name__
