"""A setting is declared once; everything else about it is checked, hidden, described and written from there."""

import copy
import pickle

import pytest

from ottla.errors import InvalidSetting, InvalidSettings, UnknownSetting
from ottla.settings import (
    CALLABLE,
    LIST,
    LONG,
    SHORT,
    Alias,
    Password,
    Settings,
    Source,
    setting,
)


def hours_to_ms(hours: object) -> int:
    return int(str(hours)) * 3_600_000


class Common(Settings):
    client_id = setting("client.id", str, default="", doc="A name for logs and quotas.", importance="low")
    bootstrap_servers = setting("bootstrap.servers", LIST, doc="Where to ask first.", importance="high")
    sasl_password = setting("sasl.password", Password, default=None, doc="The secret.", aliases=["sasl_plain_password"])


class Producer(Common):
    linger_ms = setting(
        "linger.ms", int, default=5, at_least=0, at_most=1000, unit="ms", dynamic="per-broker",
        doc="How long to wait.", aliases=["queue.buffering.max.ms", Alias("linger_s", lambda s: int(s) * 1000)],
    )  # fmt: skip
    acks = setting(
        "acks", str, default="all", one_of=["all", "-1", "0", "1"], doc="Who must have it | before the answer."
    )
    enable_idempotence = setting("enable.idempotence", bool, default=True, doc="No duplicates.")
    ratio = setting("ratio", float, default=0.5, at_least=0, at_most=1, doc="A share.")
    epoch = setting("epoch", SHORT, default=0, doc="A small number.")
    key_serializer = setting("key.serializer", CALLABLE, default=None, names={"text": str.encode}, doc="Key to bytes.")
    cleanup_policy = setting(
        "cleanup.policy", LIST, default=("delete",), one_of=["compact", "delete"], doc="What goes."
    )


class Broker(Settings):
    log_retention_ms = setting(
        "log.retention.ms", LONG, default=604_800_000, at_least=-1, dynamic="cluster-wide", doc="How long they stay.",
        synonyms=[Alias("log.retention.minutes", lambda m: int(m) * 60_000), Alias("log.retention.hours", hours_to_ms)],
    )  # fmt: skip
    node_id = setting("node.id", int, default=1, aliases=["broker.id"], doc="The number of this broker.")
    even = setting("even", int, default=0, doc="Even.", check=lambda n: "it must be even" if n % 2 else None)
    log_dirs = setting("log.dirs", LIST, default=("data",), doc="Where.")

    def validate(self) -> None:
        if self.even > self.node_id + 100:
            raise InvalidSetting("even is far beyond node.id")


def producer(dotted=None, /, **keywords):
    return Producer({"bootstrap.servers": "a:1", **(dotted or {})}, **keywords)


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_setting_is_given_by_dotted_name_or_keyword():
    assert producer({"linger.ms": "10"}).linger_ms == 10
    assert producer(linger_ms=10).linger_ms == 10
    assert producer().linger_ms == 5


def test_both_spellings_at_once_are_refused():
    with pytest.raises(InvalidSetting, match=r"linger\.ms and linger_ms are the same setting"):
        producer({"linger.ms": 1}, linger_ms=1)


def test_an_unknown_name_is_answered_with_the_nearest_in_the_same_spelling():
    with pytest.raises(UnknownSetting, match=r"'lingre\.ms' \(did you mean 'linger\.ms'\?\)"):
        producer({"lingre.ms": 1})
    with pytest.raises(UnknownSetting, match=r"'lingerms' \(did you mean 'linger_ms'"):
        producer(lingerms=1)
    with pytest.raises(UnknownSetting, match=r"did you mean 'linger\.ms'"):
        producer({"linger_ms": 1})


def test_an_unknown_name_without_relatives_gets_no_guess():
    with pytest.raises(UnknownSetting) as caught:
        producer({"zzz": 1})
    assert "did you mean" not in str(caught.value)


def test_another_librarys_word_is_understood_and_translated():
    assert producer({"queue.buffering.max.ms": "7"}).linger_ms == 7
    assert producer(queue_buffering_max_ms=7).linger_ms == 7
    assert producer(linger_s="1").linger_ms == 1000


def test_an_alias_beside_its_setting_is_refused():
    with pytest.raises(InvalidSetting, match=r"linger\.ms and queue\.buffering\.max\.ms are the same"):
        producer({"linger.ms": 1, "queue.buffering.max.ms": 1})


def test_an_alias_value_that_cannot_be_translated_is_refused():
    with pytest.raises(InvalidSetting, match="linger_s cannot be translated"):
        producer(linger_s="soon")


def test_an_error_names_the_key_the_user_wrote():
    with pytest.raises(InvalidSetting, match=r"queue\.buffering\.max\.ms=-1; it must be"):
        producer({"queue.buffering.max.ms": -1})


def test_a_synonym_counts_only_when_the_setting_is_not_given_and_the_first_one_wins():
    assert Broker({"log.retention.hours": "2"}).log_retention_ms == 7_200_000
    assert Broker({"log.retention.hours": "2", "log.retention.minutes": "1"}).log_retention_ms == 60_000
    assert Broker({"log.retention.hours": "2", "log.retention.ms": "9"}).log_retention_ms == 9


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("linger.ms", " +7 ", 7),
        ("linger.ms", 1000, 1000),
        ("enable.idempotence", "FALSE", False),
        ("enable.idempotence", " true ", True),
        ("ratio", "2.5e-1", 0.25),
        ("ratio", "1", 1.0),
        ("ratio", 1, 1.0),
        ("acks", 1, "1"),
        ("acks", "all", "all"),
        ("client.id", " spaces stay ", " spaces stay "),
        ("bootstrap.servers", "a:1 , b:2,", ("a:1", "b:2")),
        ("bootstrap.servers", ["a:1", "b:2"], ("a:1", "b:2")),
        ("bootstrap.servers", "", ()),
        ("sasl.password", "s", Password("s")),
        ("sasl.password", None, None),
        ("key.serializer", "text", str.encode),
        ("key.serializer", repr, repr),
        ("cleanup.policy", "compact,delete", ("compact", "delete")),
        ("epoch", "32767", 32767),
    ],
)
def test_texts_are_read_as_java_reads_them(name, value, accepted):
    assert Producer({"bootstrap.servers": "a:1"} | {name: value}).as_dict()[name] == accepted


@pytest.mark.parametrize(
    ("name", "value", "permitted"),
    [
        ("linger.ms", -1, r"a whole number, at least 0, at most 1000 \(ms\)"),
        ("linger.ms", 1001, "at most 1000"),
        ("linger.ms", "5s", "whole number"),
        ("linger.ms", "1_0", "whole number"),
        ("linger.ms", "٣", "whole number"),
        ("linger.ms", 1.0, "whole number"),
        ("linger.ms", True, "whole number"),
        ("linger.ms", None, "whole number"),
        ("linger.ms", "9" * 30, "whole number"),
        ("epoch", 32768, "whole number"),
        ("epoch", -32769, "whole number"),
        ("enable.idempotence", "yes", "true or false"),
        ("enable.idempotence", 1, "true or false"),
        ("ratio", "nan", "a number"),
        ("ratio", float("inf"), "a number"),
        ("ratio", 1.5, "at most 1"),
        ("acks", "2", "one of all, -1, 0, 1"),
        ("acks", True, "one of all"),
        ("client.id", 1.5, "a text"),
        ("bootstrap.servers", [1], "a list of texts"),
        ("bootstrap.servers", 5, "a list of texts"),
        ("cleanup.policy", "compact,shred", "any of compact, delete"),
        ("key.serializer", "os.system", "a class or function, or one of text"),
    ],
)
def test_a_value_that_is_not_permitted_is_refused_with_key_value_and_range(name, value, permitted):
    with pytest.raises(InvalidSetting, match=permitted) as caught:
        producer({} if name == "bootstrap.servers" else None).replaced({name: value})
    assert f"{name}={value!r}; " in str(caught.value)


def test_a_32_bit_setting_does_not_take_64_bits_but_a_long_does():
    with pytest.raises(InvalidSetting):
        Broker({"node.id": 2**31})
    assert Broker({"log.retention.ms": 2**63 - 1}).log_retention_ms == 2**63 - 1
    with pytest.raises(InvalidSetting):
        Broker({"log.retention.ms": 2**63})


def test_a_required_setting_must_be_given():
    with pytest.raises(InvalidSetting, match=r"bootstrap\.servers is missing; it must be a list"):
        Producer()


def test_a_declared_check_and_rules_between_settings_are_heard():
    with pytest.raises(InvalidSetting, match="even=3; it must be even"):
        Broker(even=3)
    with pytest.raises(InvalidSetting, match="far beyond"):
        Broker(even=200)
    assert Broker(even=200, node_id=100).even == 200


def test_everything_that_is_wrong_is_told_at_once():
    with pytest.raises(InvalidSettings) as caught:
        Broker({"evan": "2", "log.retention.ms": "soon", "even": 3, "node.id": "x", "broker.id": "2"})
    said = [str(each) for each in caught.value.refusals]
    assert [type(each) for each in caught.value.refusals] == [UnknownSetting, *[InvalidSetting] * 4]
    for word in ("'evan' (did you mean 'even'?)", "node.id and broker.id", "log.retention.ms='soon'", "even=3"):
        assert any(word in each for each in said)
        assert word in str(caught.value)


def test_a_rule_is_not_asked_about_a_value_that_was_refused():
    with pytest.raises(InvalidSetting) as caught:
        Broker(even=200, node_id="x")
    assert "far beyond" not in str(caught.value)
    assert not isinstance(caught.value, InvalidSettings)


def test_every_rule_is_asked_whatever_the_others_said():
    class Several(Broker):
        def rules(self):
            yield from super().rules()
            yield lambda: ["a sentence", "another"]
            yield self.validate

    with pytest.raises(InvalidSettings) as caught:
        Several(even=200)
    assert [each.detail for each in caught.value.refusals] == ["even is far beyond node.id", "a sentence", "another"]


def test_a_huge_value_is_not_repeated_in_full():
    with pytest.raises(InvalidSetting) as caught:
        producer({"linger.ms": "x" * 10_000})
    assert len(str(caught.value)) < 500


# --- declarations ----------------------------------------------------------------------------------------------------


def test_the_attribute_must_be_the_name():
    with pytest.raises((TypeError, RuntimeError)) as caught:
        type("Wrong", (Settings,), {"linger": setting("linger.ms", int, default=1, doc="x.")})
    assert "linger_ms" in str(caught.value) + str(caught.value.__cause__)


def test_a_default_must_be_permitted_itself():
    with pytest.raises(InvalidSetting):
        setting("linger.ms", int, default=-1, at_least=0, doc="x.")


def test_an_alias_that_is_another_settings_name_is_refused():
    with pytest.raises(TypeError, match="node"):
        type(
            "Wrong",
            (Settings,),
            {"node": setting("node", int, default=1, doc="x."), "a": setting("a", int, doc="x.", aliases=["node"])},
        )


def test_groups_combine_and_a_later_declaration_overrides():
    class Both(Producer, Broker):
        linger_ms = setting("linger.ms", int, default=0, doc="Not at all.")

    both = Both({"bootstrap.servers": "a:1", "node.id": 7})
    assert (both.linger_ms, both.node_id, both.acks) == (0, 7, "all")
    assert len([each for each in Both.declared() if each.name == "linger.ms"]) == 1
    assert producer().linger_ms == 5


def test_reading_a_value_is_a_plain_instance_attribute():
    assert vars(producer())["linger_ms"] == 5
    assert Producer.linger_ms.name == "linger.ms"


# --- objects ---------------------------------------------------------------------------------------------------------


def test_settings_do_not_change():
    settings = producer()
    with pytest.raises(AttributeError, match="replaced"):
        settings.linger_ms = 1
    with pytest.raises(AttributeError):
        del settings.linger_ms


def test_replaced_gives_another_checked_object():
    first = producer({"client.id": "me"})
    second = first.replaced(linger_ms=9)
    assert (first.linger_ms, second.linger_ms, second.client_id) == (5, 9, "me")
    with pytest.raises(InvalidSetting):
        first.replaced(linger_ms=-1)
    with pytest.raises(UnknownSetting):
        first.replaced(linger=1)


def test_a_change_while_running_needs_a_dynamic_setting():
    assert producer().replaced({"linger.ms": 9}, source=Source.DYNAMIC).source("linger.ms") is Source.DYNAMIC
    assert Broker().replaced({"log.retention.hours": 1}, source=Source.DYNAMIC).log_retention_ms == 3_600_000
    with pytest.raises(InvalidSetting, match="acks cannot change while running"):
        producer().replaced({"acks": "1"}, source=Source.DYNAMIC)


def test_settings_with_the_same_values_are_equal():
    assert producer(linger_ms=5) == producer()
    assert hash(producer(linger_ms=5)) == hash(producer())
    assert producer(linger_ms=6) != producer()
    assert Common(bootstrap_servers="a:1") != producer()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_settings_travel_to_other_processes(duplicate):
    settings = producer({"sasl.password": "s", "linger.ms": 9})
    assert duplicate(settings) == settings
    assert duplicate(settings).replaced(acks="1").linger_ms == 9


def test_a_secret_is_never_printed():
    canary = "s3cret-canary"
    settings = producer({"sasl.password": canary})
    texts = [repr(settings), str(settings.sasl_password), repr(settings.as_dict()), repr(settings.entries())]
    texts += [repr(vars(settings)), repr(settings.replaced(acks="1"))]
    assert not any(canary in text for text in texts)
    assert "sasl.password=[hidden]" in repr(settings)
    assert settings.sasl_password.value == canary
    for value in ([canary], {canary: 1}):
        with pytest.raises(InvalidSetting) as caught:
            producer({"sasl.password": value})
        assert canary not in str(caught.value)


def test_repr_shows_what_was_given():
    assert repr(producer(linger_ms=9, enable_idempotence=False)) == (
        "Producer(bootstrap.servers=a:1, linger.ms=9, enable.idempotence=false)"
    )


# --- introspection ---------------------------------------------------------------------------------------------------


def entry(settings, name):
    return next(each for each in settings.entries() if each.setting.name == name)


def test_an_entry_tells_value_source_and_whether_it_can_change():
    linger = entry(producer(linger_ms=9), "linger.ms")
    assert (linger.value, linger.source, linger.read_only) == ("9", Source.STATIC, False)
    assert (linger.setting.kind.name, linger.setting.importance) == ("INT", "medium")
    acks = entry(producer(), "acks")
    assert (acks.value, acks.source, acks.read_only) == ("all", Source.DEFAULT, True)
    assert entry(producer(), "enable.idempotence").value == "true"
    assert entry(producer(), "cleanup.policy").value == "delete"
    assert entry(producer({"key.serializer": "text"}), "key.serializer").value == "text"


def test_an_entry_lists_the_synonyms_in_the_order_they_count():
    settings = Broker({"log.retention.hours": "2", "log.retention.ms": "9"})
    assert entry(settings, "log.retention.ms").synonyms == (
        ("log.retention.ms", "9", Source.STATIC),
        ("log.retention.hours", "2", Source.STATIC),
        ("log.retention.ms", "604800000", Source.DEFAULT),
    )


def test_a_sensitive_entry_has_no_value_anywhere():
    secret = entry(producer({"sasl.password": "s"}), "sasl.password")
    assert secret.setting.sensitive
    assert secret.value is None
    assert [value for _, value, _ in secret.synonyms] == [None, None]


# --- files and environment --------------------------------------------------------------------------------------------


def test_environment_wins_over_file_and_keywords_over_both(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("broker.id=1\nlog.dirs=/a,/b\neven=2\n")
    settings = Broker.load(path, {"KAFKA_NODE_ID": "2", "KAFKA_EVEN": "4"}, even=6)
    assert (settings.node_id, settings.log_dirs, settings.even) == (2, ("/a", "/b"), 6)
    assert Broker.load() == Broker()


def test_an_unknown_key_in_a_file_is_refused(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("nod.id=1\n")
    with pytest.raises(UnknownSetting, match=r"did you mean 'node\.id'"):
        Broker.load(path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.5, "0.5"), (0.0, "0.0"), (1.0, "1.0"), (0.001, "0.001"), (9_999_999.0, "9999999.0")),
        *((1e-4, "1.0E-4"), (1e7, "1.0E7"), (-2.5e10, "-2.5E10"), (1.7976931348623157e308, "1.7976931348623157E308")),
    ],
)
def test_numbers_with_a_fraction_are_written_as_java_writes_them(value, text):
    class Ratio(Settings):
        ratio = setting("ratio", float, default=0.0, doc="A number.")

    (declared,) = Ratio.declared()
    assert declared.text(value) == text
    assert declared.accept(text) == value
