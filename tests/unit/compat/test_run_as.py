"""A program for another library runs unedited: its imports mean ours."""

import subprocess
import sys

PROGRAM = """
import sys
import confluent_kafka, confluent_kafka.admin
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from helper import where
print(Producer.__module__, NewTopic.__module__, confluent_kafka.admin.__name__, where, __name__, sys.argv)
try:
    import confluent_kafka.avro
except ModuleNotFoundError as error:
    print(error)
"""


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "ottla.compat.run_as", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_the_imports_of_a_program_mean_ours(tmp_path):
    (tmp_path / "helper.py").write_text("where = 'beside the program'")
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = run("confluent_kafka", "program.py", "--an", "argument", cwd=tmp_path)
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == [
        "ottla.compat.confluent_kafka.producer ottla.compat.confluent_kafka.admin_values"
        " ottla.compat.confluent_kafka.admin beside the program __main__ ['program.py', '--an', 'argument']",
        "No module named 'confluent_kafka.avro': ottla.compat does not have it",
    ]


def test_a_module_can_be_run_and_several_libraries_named(tmp_path):
    (tmp_path / "both.py").write_text("import kafka, aiokafka\nprint(kafka.__name__, aiokafka.__name__)\nexit(3)")
    ended = run("kafka,aiokafka", "-m", "both", cwd=tmp_path)
    assert (ended.stdout, ended.returncode) == ("ottla.compat.kafka ottla.compat.aiokafka\n", 3)


def test_a_wrong_library_is_a_usage_error(tmp_path):
    ended = run("kafka_python", "x.py", cwd=tmp_path)
    assert ended.returncode == 2
    assert "'kafka_python' is none of confluent_kafka, kafka, aiokafka" in ended.stderr


def test_an_error_of_the_program_looks_as_if_python_had_run_it(tmp_path):
    (tmp_path / "program.py").write_text("import confluent_kafka\n\ndef f():\n    raise ValueError('mine')\n\nf()\n")
    ended = run("confluent_kafka", "program.py", cwd=tmp_path)
    plain = subprocess.run(
        [sys.executable, "program.py"], capture_output=True, text=True, check=False, cwd=tmp_path
    ).stderr
    assert ended.returncode == 1
    assert ended.stderr.replace(f"{tmp_path}/", "") == plain.replace(f"{tmp_path}/", "")
    assert "runpy" not in ended.stderr


def test_a_program_that_is_not_there_is_a_usage_error(tmp_path):
    ended = run("kafka", "nowhere.py", cwd=tmp_path)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (2, "there is no nowhere.py")
