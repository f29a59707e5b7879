"""Steps that are Python functions, and pipelines that are Python files.

    def per_page(valid, pages):                    its parameters are named as the sources and steps it gets
        return valid.join(pages, "page").groupBy("page").count()

1. What a function of a file wants is read from its text, without running the file: checks do not run strangers' code.
2. A file is run once, as a module of its own, with its directory first in the path: it may import its neighbours.
3. A function for Spark's own processes (udf) must stand in the file itself: they know the file, not its neighbours.
4. A Python file is a pipeline when it has a Pipeline in the variable `pipeline`.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ottla.spark.pipelines.definition import Pipeline
from ottla.spark.pipelines.faults import PipelineWrong, nearest

VARIABLE: Final = "pipeline"


def split_reference(reference: str) -> tuple[str, str] | None:
    """("steps.py", "per_page") of "steps.py:per_page"; None when it is not written so."""
    file_name, colon, function = reference.rpartition(":")
    return (file_name, function) if colon and file_name.endswith(".py") and function.isidentifier() else None


def parameters(function: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters."""
    return list(inspect.signature(function).parameters)


def parameters_in_file(path: Path, function: str) -> list[str]:
    """The same, from the text of a file; ValueError says what is wrong with it."""
    try:
        tree = ast.parse(path.read_text(), filename=str(path))
    except OSError as error:
        raise ValueError(f"cannot read {path.name}: {error.strerror}") from None
    except SyntaxError as error:
        raise ValueError(f"{path.name}:{error.lineno}: this is no Python: {error.msg}") from None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if function not in functions:
        raise ValueError(f"{path.name} has no function {function!r}{nearest(function, functions)}")
    arguments = functions[function].args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def load_function(path: Path, function: str) -> Callable[..., Any]:
    """The function itself; the file is run. Functions that it gives to Spark (udf) travel with their code."""
    module = load_module(path)
    _send_by_value(module)
    found: Callable[..., Any] = getattr(module, function)
    return found


def _send_by_value(module: ModuleType) -> None:
    """Spark's Python processes cannot import a pipeline's file: what they need of it is sent whole."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def load_module(path: Path) -> ModuleType:
    """A file as a module; a second call gives the same one."""
    path = path.resolve()
    name = f"ottla_pipeline_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "the name ends with .py"
    assert spec.loader is not None, "a file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


def read_python(path: Path) -> Pipeline:
    """The pipeline of a Python file."""
    module = load_module(path)
    found = getattr(module, VARIABLE, None)
    if not isinstance(found, Pipeline):
        raise PipelineWrong(
            [f"{path.name}: there is no Pipeline in the variable {VARIABLE!r}: pipeline = Pipeline(name=..., ...)"]
        )
    if any(callable(step.python) for step in found.steps.values()):
        _send_by_value(module)
    return found
