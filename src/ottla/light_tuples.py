"""Named tuples that cost little to declare: a class gets its constructor when several tuples were made.

`typing.NamedTuple` checks every annotation and compiles a constructor while its module is loaded: a tenth of the start
of a broker, which loads a hundred of them. `NamedTuple` here is written as that of `typing`, type checkers see that of
`typing`, and the tuples do what those do: fields, defaults, `_replace`, `_asdict`, `_make`, `_fields`,
`_field_defaults`, `match`, pickles, generic classes, `inspect.signature`.
"""

from __future__ import annotations

from _collections import _tuplegetter  # type: ignore[import-not-found]  # what collections.namedtuple reads fields with
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import inspect
    from typing import NamedTuple as NamedTuple

_NEW: Final = tuple.__new__
WALKED: Final = 8
"""So many tuples are made before a constructor is compiled, which takes as long as making a hundred."""


class _Methods(tuple):  # type: ignore[type-arg]
    """What all of them do alike."""

    __slots__ = ()
    if TYPE_CHECKING:
        _fields: tuple[str, ...]

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> Any:
        made = _NEW(cls, iterable)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **changes: Any) -> Any:
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return made

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        pairs = zip(self._fields, self, strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    __replace__ = _replace


class _Maker(type):
    """Makes a tuple class out of the annotations of a class body."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        fields = tuple(namespace.get("__annotations__") or _annotated(namespace))
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        for field in fields[len(fields) - len(defaults) :]:
            if field not in defaults:
                raise TypeError(f"{name}: a field without a default follows one with a default")
        namespace |= {field: _tuplegetter(index, None) for index, field in enumerate(fields)}
        namespace |= {"__slots__": (), "_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
        namespace |= {"__new__": _first_new(fields, defaults), "__signature__": _Signature()}
        return type(name, tuple(_Methods if base is _BASE else base for base in bases), namespace)


def _annotated(namespace: dict[str, Any]) -> dict[str, Any]:
    """Since Python 3.14 annotations wait in a function."""
    annotate = namespace.get("__annotate_func__") or namespace.get("__annotate__")
    return {} if annotate is None else dict(annotate(1))


def _first_new(fields: tuple[str, ...], defaults: dict[str, Any]) -> Any:
    """Makes the first few by a loop over the fields, then the constructor is written."""
    made = 0

    def first(cls: Any, /, *arguments: Any, **named: Any) -> Any:
        nonlocal made
        made += 1
        if made <= WALKED and (values := _values(fields, defaults, arguments, named)) is not None:
            return _NEW(cls, values)
        owner = next(base for base in cls.__mro__ if base.__dict__.get("_fields") is fields)
        return _written_new(owner)(cls, *arguments, **named)

    return first


def _values(
    fields: tuple[str, ...], defaults: dict[str, Any], arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...] | None:
    """One for each field; None if the written constructor has to say what is wrong with the arguments."""
    if not named and len(arguments) == len(fields):
        return arguments
    rest = fields[len(arguments) :]
    if len(arguments) > len(fields) or not set(named) <= set(rest):
        return None
    if any(field not in named and field not in defaults for field in rest):
        return None
    return (*arguments, *(named[field] if field in named else defaults[field] for field in rest))


def _written_new(owner: Any) -> Any:
    """The constructor, in its place from now on. Two threads may both come here, and write the same."""
    names = "".join(f"{name}, " for name in owner._fields)
    scope: dict[str, Any] = {"_new": _NEW}
    new = eval(compile(f"lambda _cls, {names}: _new(_cls, ({names}))", "<__new__ of a named tuple>", "eval"), scope)
    new.__defaults__ = tuple(owner._field_defaults.values())
    new.__name__, new.__qualname__ = "__new__", f"{owner.__qualname__}.__new__"
    owner.__new__ = staticmethod(new)
    return new


class _Signature:
    """What `inspect.signature` wants to know of a class."""

    __slots__ = ()

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        import inspect

        made = inspect.signature(_written_new(next(base for base in owner.__mro__ if "_fields" in base.__dict__)))
        hints = owner.__annotations__
        named = [each.replace(annotation=hints.get(each.name, each.empty)) for each in made.parameters.values()]
        return made.replace(parameters=named[1:])


_BASE: Final = type.__new__(_Maker, "NamedTuple", (), {})


class _Declaring:
    """Stands where a base class stands."""

    __slots__ = ()

    def __mro_entries__(self, bases: tuple[type, ...]) -> tuple[type, ...]:
        return (_BASE,)


if not TYPE_CHECKING:
    NamedTuple = _Declaring()
