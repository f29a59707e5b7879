"""Light dataclasses and named tuples do what those of the standard library do; each test runs with both."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import threading
import typing
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from ottla import light_dataclasses, light_tuples

T = TypeVar("T")


@light_dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    name: str
    size: int = 3
    seen: list[int] = light_dataclasses.field(default_factory=list, compare=False, repr=False)


class Pair(light_tuples.NamedTuple, Generic[T]):
    """Two things."""

    first: T
    second: int = 7

    @property
    def both(self) -> str:
        return f"{self.first}/{self.second}"


@pytest.fixture(params=["full", "light", "light, constructors written at once"])
def classes(request, monkeypatch) -> Any:
    if request.param == "full":
        return dataclasses
    monkeypatch.setattr(light_dataclasses, "WALKED", 8 if request.param == "light" else 0)
    return light_dataclasses


@pytest.fixture(params=["full", "light", "light, constructors written at once"])
def tuples(request, monkeypatch) -> Any:
    if request.param == "full":
        return typing
    monkeypatch.setattr(light_tuples, "WALKED", 8 if request.param == "light" else 0)
    return light_tuples


def test_a_constructor_is_written_when_several_objects_were_made():
    @light_dataclasses.dataclass(frozen=True)
    class Point:
        x: int
        y: list[int] = light_dataclasses.field(default_factory=list)

    class Two(light_tuples.NamedTuple):
        x: int
        y: int = 2

    first: Any = Point.__init__, Two.__new__
    made = [(Point(number), Two(number)) for number in range(light_dataclasses.WALKED)]
    assert (Point.__init__, Two.__new__) == first
    made.append((Point(len(made)), Two(len(made))))
    assert Point.__init__ is not first[0]
    assert Two.__new__ is not first[1]
    assert [(point.x, point.y, two) for point, two in made] == [(number, [], (number, 2)) for number in range(9)]


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_dataclass_has_constructor_equality_hash_and_repr(classes, frozen, slots):
    @classes.dataclass(frozen=frozen, slots=slots)
    class Point:
        x: int
        y: int = 2
        notes: list[str] = classes.field(default_factory=list, compare=False, repr=False)
        KNOWN: ClassVar[int] = 5

    one = Point(1)
    assert repr(one) == f"{Point.__qualname__}(x=1, y=2)"
    assert one == Point(1, y=2, notes=["other"])
    assert one != Point(1, 3)
    assert one != (1, 2)
    assert one.notes is not Point(1).notes
    assert Point.__match_args__ == ("x", "y", "notes")
    assert Point.KNOWN == 5
    assert hasattr(one, "__dict__") is not slots
    if frozen:
        assert hash(one) == hash((1, 2))
    else:
        with pytest.raises(TypeError, match="unhashable"):
            hash(one)
    for wrong in ((), (1, 2, [], 4)):
        with pytest.raises(TypeError):
            Point(*wrong)
    with pytest.raises(TypeError):
        Point(1, z=1)


def test_a_frozen_dataclass_refuses_changes(classes):
    @classes.dataclass(frozen=True, slots=True)
    class Point:
        x: int

    point = Point(1)
    for change in (lambda: setattr(point, "x", 2), lambda: delattr(point, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert point.x == 1


def test_a_plain_dataclass_can_be_changed(classes):
    @classes.dataclass(slots=True)
    class Point:
        x: int

    point = Point(1)
    point.x = 2
    assert point == Point(2)


@pytest.mark.parametrize("slots", [False, True])
def test_a_dataclass_inherits_fields_and_may_change_their_defaults(classes, slots):
    @classes.dataclass(frozen=True, slots=slots)
    class Base:
        x: int
        y: int = 2

    @classes.dataclass(frozen=True, slots=slots)
    class Child(Base):
        y: int = 5
        z: int = 6

    assert repr(Child(1)).endswith("Child(x=1, y=5, z=6)")
    assert Child(1) != Base(1, 5)
    assert Base(1) == Base(1, 2)
    assert hash(Child(1)) == hash((1, 5, 6))


def test_a_class_that_inherits_without_being_a_dataclass_has_attributes_of_its_own(classes):
    @classes.dataclass(frozen=True)
    class Base:
        x: int

    class Child(Base):
        pass

    child = Child(1)
    child.other = 2  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        child.x = 3  # type: ignore[misc]
    assert (child.x, child.other) == (1, 2)  # type: ignore[attr-defined]


def test_what_a_class_defines_itself_is_kept(classes):
    @classes.dataclass(frozen=True, slots=True)
    class Point:
        x: int
        double: int = classes.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "double", 2 * self.x)

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 4

        def __repr__(self) -> str:
            return "a point"

    assert (Point(1).double, Point(1) == 3, hash(Point(1)), repr(Point(1))) == (2, True, 4, "a point")


def test_equality_may_be_that_of_objects(classes):
    @classes.dataclass(eq=False)
    class Thing:
        x: int

    assert Thing(1) != Thing(1)
    assert isinstance(hash(Thing(1)), int)


def test_fields_by_keyword_only(classes):
    @classes.dataclass(frozen=True, slots=True, kw_only=True)
    class Point:
        x: int = 1
        y: int

    assert Point(y=3).y == 3
    with pytest.raises(TypeError):
        Point(3)


def test_a_default_that_all_instances_would_share_is_refused(classes):
    class Point:
        x: list[int] = []

    with pytest.raises(ValueError):
        classes.dataclass(Point)


def test_a_repr_of_what_holds_itself_ends(classes):
    @classes.dataclass
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    assert repr(node) == f"{Node.__qualname__}(next=...)"


def test_a_class_may_be_generic(classes):
    @classes.dataclass(slots=True)
    class Box(Generic[T]):
        content: T

    assert Box(3) == Box(3)
    assert Box[int].__origin__ is Box


def test_what_dataclasses_asks_is_answered():
    assert dataclasses.is_dataclass(Kept)
    assert [each.name for each in dataclasses.fields(Kept)] == ["name", "size", "seen"]
    assert dataclasses.fields(Kept)[1].default == 3
    assert dataclasses.fields(Kept)[0].default is dataclasses.MISSING
    assert dataclasses.asdict(Kept("a")) == {"name": "a", "size": 3, "seen": []}
    assert dataclasses.replace(Kept("a", seen=[4]), name="b") == Kept("b")
    assert light_dataclasses.replace(Kept("a", seen=[4]), name="b").seen == [4]
    with pytest.raises(TypeError):
        light_dataclasses.replace(Kept("a"), nobody=1)  # type: ignore[call-arg]


def test_copies_and_pickles_are_equal():
    kept, pair = Kept("a", 4), Pair("a")
    for value in (kept, pair):
        assert pickle.loads(pickle.dumps(value)) == value
        assert copy.copy(value) == copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(Kept("a", seen=[9]))).seen == [9]


def test_signatures_are_known_before_anything_was_made():
    script = (
        "import inspect\n"
        "from ottla.light_dataclasses import dataclass\n"
        "from ottla.light_tuples import NamedTuple\n"
        "@dataclass(frozen=True)\nclass One:\n x: int\n y: str = 'b'\n"
        "class Two(NamedTuple):\n x: int\n y: str = 'b'\n"
        "print(inspect.signature(One), inspect.signature(Two))"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "(x: int, y: str = 'b') -> None (x: int, y: str = 'b')"
    assert str(inspect.signature(Kept)).startswith("(name: str, size: int = 3")


def test_named_tuples_are_tuples_with_names(tuples):
    class Point(tuples.NamedTuple):
        """A place."""

        x: int
        y: int = 2

        def sum(self) -> int:
            return self.x + self.y

        @classmethod
        def origin(cls) -> Any:
            return cls(0, 0)

    point = Point(1)
    assert point == (1, 2) == Point(y=2, x=1)
    assert (point.x, point.y, point.sum(), Point.origin()) == (1, 2, 3, (0, 0))
    assert repr(point) == "Point(x=1, y=2)"
    assert (Point._fields, Point._field_defaults, Point.__match_args__) == (("x", "y"), {"y": 2}, ("x", "y"))
    assert point._replace(y=5) == Point._make([1, 5]) == (1, 5)
    assert point._asdict() == {"x": 1, "y": 2}
    assert typing.get_type_hints(Point) == {"x": int, "y": int}
    assert not hasattr(point, "__dict__")
    assert Point.__doc__ == "A place."
    with pytest.raises(AttributeError):
        point.x = 3
    for wrong in ((), (1, 2, 3)):
        with pytest.raises(TypeError):
            Point(*wrong)
    with pytest.raises(ValueError):
        point._replace(z=3)
    with pytest.raises(TypeError):
        Point._make([1])


def test_named_tuples_may_be_generic_and_inherited(tuples):
    class Base(tuples.NamedTuple, Generic[T]):
        x: T

    class Child(Base[int]):
        def double(self) -> int:
            return 2 * self.x

    assert Child(4).double() == 8
    assert isinstance(Base("a"), Base)
    assert type(Child(4)) is Child


def test_a_named_tuple_has_its_defaults_last(tuples):
    with pytest.raises(TypeError):

        class Point(tuples.NamedTuple):
            x: int = 1
            y: int


def test_the_first_instances_may_be_made_by_many_threads_at_once():
    for _ in range(20):
        kind = light_dataclasses.dataclass(frozen=True, slots=True)(type("K", (), {"__annotations__": {"x": int}}))
        made: list[Any] = []
        start = threading.Barrier(4)

        def make(kind: Any = kind, made: list[Any] = made, start: threading.Barrier = start) -> None:
            start.wait()
            made.append(hash(kind(1)))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [hash((1,))] * 4
