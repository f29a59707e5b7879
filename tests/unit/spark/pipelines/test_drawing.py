"""The picture of a pipeline: what stands where, and that names cannot break out of it."""

import re
from xml.etree import ElementTree

import pytest

from ottla.cli.main import main
from ottla.cli.output import FAILED, OK
from ottla.spark.pipelines import DeadLetters, Pipeline, Sink, Source, Step
from ottla.spark.pipelines.drawing import Picture, dot, mermaid, svg
from ottla.spark.pipelines.graph import Graph

PIPELINE = Pipeline(
    name="clicks",
    sources={
        "clicks": Source(topic="clicks", format="json", schema="user STRING"),
        "pages": Source(files='<b>"pages&.csv', format="csv", static=True),
    },
    steps={"named": Step(sql="SELECT 1"), "slow": Step(from_="named")},
    sinks={"named": Sink(from_="named", topic="named"), "files": Sink(from_="slow", files="out")},
    dead_letters=DeadLetters(topic="dead"),
)
PICTURE = Picture.of(Graph.of(PIPELINE, {"named": ("clicks", "pages"), "slow": ("named",)}))


def test_things_stand_behind_what_they_read():
    places = {node.name: (node.column, node.row) for node in PICTURE.nodes}
    assert places == {
        "clicks": (0, 0),
        "pages": (0, 1),
        "named": (1, 0),
        "slow": (2, 0),
        "sink named": (3, 0),
        "sink files": (3, 1),
        "dead letters": (3, 2),
    }
    assert ("clicks", "dead letters") in PICTURE.edges
    assert ("named", "sink named") in PICTURE.edges, "a sink may be called as its step is"


def test_the_svg_is_whole_and_has_the_notes():
    root = ElementTree.fromstring(svg(PICTURE, {"sink files": "9 behind"}))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert 'files <b>"pages&.csv, read whole' in texts
    assert "9 behind" in texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == len(PICTURE.nodes)


def test_the_other_forms_name_every_box():
    assert len(re.findall(r"^    n\d+\[", mermaid(PICTURE), re.MULTILINE)) == len(PICTURE.nodes)
    assert "<b>" not in mermaid(PICTURE)
    assert '"pages" -> "named";' in dot(PICTURE)
    assert '\\"pages&.csv' in dot(PICTURE)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "init", "clicks"]) == OK
    monkeypatch.chdir(tmp_path / "clicks")
    return tmp_path / "clicks"


def test_the_command_draws_what_the_file_is_called(project, capsys):
    assert main(["pipeline", "graph", "-o", "p.svg"]) == OK
    assert (project / "p.svg").read_text().startswith("<svg")
    assert main(["pipeline", "graph", "-o", "p.png"]) == FAILED
    assert "say --as" in capsys.readouterr().err


def test_a_unit_serves_the_pipeline(project, capsys):
    capsys.readouterr()
    assert main(["pipeline", "systemd", "--user", "ottla", "--listen", "0.0.0.0:9645"]) == OK
    unit = capsys.readouterr().out
    assert re.search(r"^ExecStart=\S+ -m ottla pipeline serve \S+/pipeline.yml --listen 0.0.0.0:9645$", unit, re.M)
    assert "User=ottla" in unit
    assert f"WorkingDirectory={project}" in unit
