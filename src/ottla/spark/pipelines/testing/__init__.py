"""Tests of pipelines: records in, rows and records expected, on the real plan and the real Spark, without a broker.

    cases.py        what a test is made of: what is given, what is expected
    yaml_tests.py   YAML to these
    given.py        given records become files that stand for topics and for a source's own files
    trying.py       the plan runs on them: real decoding, rules, steps, batches, windows; sinks become tables in memory
    comparing.py    expected and written rows, and how they differ
    judging.py      a whole test: run it, compare all that it says, say what is not so

`ottla pipeline test` runs files, the pytest fixture `pipeline_test` (ottla.testing.plugin) runs what Python says.
"""
