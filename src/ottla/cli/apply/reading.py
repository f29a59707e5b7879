"""A file in YAML, TOML or JSON as a plain tree of texts, lists and mappings, with the line of every word.

1. Every value is a text, whatever the form: `partitions: 6` and `partitions: "6"` are the same, and a user called `no`
   is no boolean. What a text means is decided by whoever reads it (desired.py).
2. A word that stands twice in one mapping is an error; YAML's anchors and `<<` work.
3. The file is data: nothing in it makes objects. Its size and the number of its values have bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from ottla.cli.output import Failure

Tree: TypeAlias = "str | list[Tree] | dict[str, Tree]"
Place: TypeAlias = tuple[str, ...]

SIZE_LIMIT_BYTES: Final = 4 << 20
VALUES_LIMIT: Final = 200_000
FORMS: Final = (".yml", ".yaml", ".toml", ".json")


class ReadFile:
    """A file's tree, and where its words stand (TOML and JSON have no lines)."""

    def __init__(self, name: str, tree: Tree, lines: Mapping[Place, int]) -> None:
        self.name, self.tree, self._lines = name, tree, lines

    def where(self, place: Place) -> str:
        """`cluster.yml:12: topics.clicks`, as far as it is known."""
        line = next((self._lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in self._lines), None)
        file = self.name if line is None else f"{self.name}:{line}"
        return f"{file}: {'.'.join(place)}" if place else file


def read_file(path: Path) -> ReadFile:
    """The tree of a file; its name says which form it has."""
    form = path.suffix.lower()
    if form not in FORMS:
        raise Failure(f"{path}: the name of the file says its form; it ends with {', '.join(FORMS)}")
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT_BYTES + 1)
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from None
    if len(data) > SIZE_LIMIT_BYTES:
        raise Failure(f"{path}: the file has more than {SIZE_LIMIT_BYTES:,} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Failure(f"{path} is not a text file") from None
    return read_text(text, form, str(path))


def read_text(text: str, form: str, name: str) -> ReadFile:
    """The tree of a text in one of the FORMS."""
    if form == ".json":
        return _from_json(text, name)
    if form == ".toml":
        return _from_toml(text, name)
    return _from_yaml(text, name)


def _from_json(text: str, name: str) -> ReadFile:
    import json

    def no_word_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
            raise Failure(f"{name}: {twice!r} stands twice in one object")
        return found

    try:
        value = json.loads(text, object_pairs_hook=no_word_twice)
    except (ValueError, RecursionError) as error:
        raise Failure(f"{name}: this is no JSON: {error}") from None
    return ReadFile(name, _Texts(name).of(value, ()), {})


def _from_toml(text: str, name: str) -> ReadFile:
    import tomllib

    try:
        value = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Failure(f"{name}: this is no TOML: {error}") from None
    return ReadFile(name, _Texts(name).of(value, ()), {})


class _Texts:
    """Values of JSON and TOML as texts."""

    def __init__(self, name: str) -> None:
        self._name = name

    def of(self, value: Any, place: Place) -> Tree:
        if isinstance(value, dict):
            return {str(key): self.of(each, (*place, str(key))) for key, each in value.items()}
        if isinstance(value, list):
            return [self.of(each, (*place, str(number))) for number, each in enumerate(value)]
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str | int | float):
            return str(value)
        raise Failure(f"{ReadFile(self._name, '', {}).where(place)}: {value!r} is no text, number, list or mapping")


def _from_yaml(text: str, name: str) -> ReadFile:
    try:
        import yaml
    except ImportError:
        raise Failure(
            f"reading {name} needs PyYAML: pip install 'ottla[yaml]'; or write the file in TOML or JSON"
        ) from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = name if mark is None else f"{name}:{mark.line + 1}"
        raise Failure(f"{where}: this is no YAML: {problem or str(error).splitlines()[0]}") from None
    walk = _Nodes(name)
    tree = walk.tree(root, ()) if root is not None else ""
    return ReadFile(name, tree, walk.lines)


class _Nodes:
    """Walks the nodes of YAML; aliases are walked wherever they stand, so their number is bounded too."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self.lines: dict[Place, int] = {}

    def tree(self, node: Any, place: Place) -> Tree:
        self._count += 1
        if self._count > VALUES_LIMIT:
            raise Failure(f"{self._name}: the file has more than {VALUES_LIMIT:,} values")
        if node.id == "scalar":
            return str(node.value)
        if node.id == "sequence":
            return [self._element(each, (*place, str(number))) for number, each in enumerate(node.value)]
        own: dict[str, Tree] = {}
        merged: dict[str, Tree] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for each in self._merged(value, place):
                    merged = {**each, **merged}
                continue
            word = self._word(key, own, place)
            own[word] = self.tree(value, (*place, word))
        return {**merged, **own}

    def _element(self, node: Any, place: Place) -> Tree:
        self.lines.setdefault(place, node.start_mark.line + 1)
        return self.tree(node, place)

    def _word(self, key: Any, seen: Mapping[str, Tree], place: Place) -> str:
        line = key.start_mark.line + 1
        if key.id != "scalar":
            raise Failure(f"{self._name}:{line}: a word is expected here, not a list or a mapping")
        word = str(key.value)
        if word in seen:
            raise Failure(f"{self._name}:{line}: {'.'.join((*place, word))} stands here twice")
        self.lines[(*place, word)] = line
        return word

    def _merged(self, node: Any, place: Place) -> Iterator[dict[str, Tree]]:
        found = self.tree(node, place)
        for each in found if isinstance(found, list) else [found]:
            if not isinstance(each, dict):
                raise Failure(
                    f"{self._name}:{node.start_mark.line + 1}: `<<` is followed by a mapping or a list of them"
                )
            yield each
