"""Files of tests: what they say, and what is wrong with them, told before Spark is started."""

import pytest

from ottla.spark.pipelines import Pipeline, Sink, Source, Step
from ottla.spark.pipelines.faults import PipelineWrong
from ottla.spark.pipelines.testing.yaml_tests import files_of_tests, open_test_file, read_cases

PIPELINE = Pipeline(
    name="clicks",
    sources={
        "clicks": Source(topic="clicks", format="json", schema="user STRING"),
        "pages": Source(files="pages.csv", format="csv", static=True),
    },
    steps={"named": Step(sql="SELECT * FROM clicks")},
    sinks={"out": Sink(from_="named", topic="out"), "files": Sink(from_="named", files="out")},
)
GOOD = """
tests:
  one:
    given: {clicks: [{value: {user: ada}, key: k}], pages: other.csv}
    expect:
      named: [{user: ada}]
      out: {ordered: true, rows: [{key: k, value: {user: ada}}]}
  two:
    given: [{clicks: [{value: a}]}, {clicks: [{value: b}]}]
    fails: is_short
"""


def cases(tmp_path, text):
    (tmp_path / "clicks.yml").write_text(text)
    (tmp_path / "other.csv").write_text("page\n/\n")
    return read_cases(open_test_file(tmp_path / "clicks.yml"), PIPELINE)


def test_what_is_given_and_expected(tmp_path):
    one, two = cases(tmp_path, GOOD)
    assert (one.name, one.fails) == ("one", None)
    assert one.batches[0]["clicks"].rows == [{"value": {"user": "ada"}, "key": "k"}]
    assert one.batches[0]["pages"].file == tmp_path / "other.csv"
    assert (one.expect["out"].ordered, one.expect["named"].ordered) == (True, False)
    assert [batch["clicks"].rows[0]["value"] for batch in two.batches] == ["a", "b"]
    assert two.fails == "is_short"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tests: {a: {given: {click: []}, expect: {out: []}}}", "no such source; did you mean 'clicks'?"),
        ("tests: {a: {given: {clicks: [{valu: 1}]}, expect: {out: []}}}", "no such word; did you mean 'value'?"),
        ("tests: {a: {given: {clicks: [7]}, expect: {out: []}}}", "here belongs a mapping"),
        ("tests: {a: {given: {clicks: 7}, expect: {out: []}}}", "here belongs a list"),
        ("tests: {a: {given: {pages: gone.csv}, expect: {out: []}}}", "there is no file gone.csv"),
        ("tests: {a: {given: {}, expect: {name: []}}}", "did you mean 'named'?"),
        ("tests: {a: {given: {}, expect: {out: [{ky: 1}]}}}", "no such word"),
        ("tests: {a: {given: {}, expect: {dead_letters: [{rules: r}]}}}", "did you mean 'rule'?"),
        ("tests: {a: {given: {}}}", "it expects nothing"),
        ("tests: {a: {given: {}, expct: {}, fails: x}}", "did you mean 'expect'?"),
        ("test: {}", "has the word 'tests'"),
        ("tests: [", "this is no YAML"),
        ("- 1", "has the word 'tests'"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, text, told):
    with pytest.raises(PipelineWrong, match=r"clicks\.yml") as wrong:
        cases(tmp_path, text)
    assert told in str(wrong.value)


def test_all_faults_come_at_once_with_their_lines(tmp_path):
    text = "tests:\n  a:\n    given:\n      click: []\n    expect:\n      name: []\n"
    with pytest.raises(PipelineWrong) as wrong:
        cases(tmp_path, text)
    assert [fault.partition(": ")[0] for fault in wrong.value.faults] == ["clicks.yml:4", "clicks.yml:6"]


def test_the_tests_of_a_pipeline_are_beside_it(tmp_path):
    (tmp_path / "tests").mkdir()
    for name in ("b.yml", "a.yaml", "pages.csv"):
        (tmp_path / "tests" / name).write_text("")
    assert [path.name for path in files_of_tests(tmp_path / "pipeline.yml")] == ["a.yaml", "b.yml"]
