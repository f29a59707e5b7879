"""Dataclasses that cost little to declare: most of those a program loads are never made in the same run.

`dataclasses` writes and compiles up to eight methods for every class while its module is loaded, about half a
millisecond for each class: a quarter of the start of a broker was that. Here a class gets its slots at once, its
constructor when several objects were made, and its other methods when the first of them is called. To whoever uses
the classes nothing is different:

1. `dataclass`, `field`, `fields`, `replace` and `is_dataclass` are called as those of `dataclasses`, and type checkers
   see those.
2. Constructors take the same arguments in the same order; equality, hash, repr, pickles, `match`, frozen attributes,
   `__post_init__` and inheritance are those of `dataclasses`; what a class defines itself is kept.
3. `dataclasses.fields`, `replace`, `asdict`, `is_dataclass`, and `inspect.signature` work with them.
4. `order`, `unsafe_hash`, `InitVar`, `KW_ONLY` and other rare things are not here: take them from `dataclasses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import dataclasses
    import inspect
    from dataclasses import MISSING as MISSING
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import is_dataclass as is_dataclass
    from dataclasses import replace as replace
else:
    MISSING = object()

SHAPE: Final = "__light_shape__"
set_attribute: Final = object.__setattr__
WALKED: Final = 8
"""So many objects are made before a constructor is compiled, which takes as long as making a hundred."""


class Field:
    """One attribute as it was declared."""

    __slots__ = ("compare", "default", "default_factory", "hash", "init", "kw_only", "name", "repr", "type")

    def __init__(
        self,
        default: Any = MISSING,
        default_factory: Any = MISSING,
        *,
        init: bool = True,
        repr: bool = True,
        hash: bool | None = None,
        compare: bool = True,
    ) -> None:
        self.default, self.default_factory = default, default_factory
        self.init, self.repr, self.compare = init, repr, compare
        self.hash = compare if hash is None else hash
        self.name, self.type, self.kw_only = "", None, False

    @property
    def has_default(self) -> bool:
        return self.default is not MISSING or self.default_factory is not MISSING


class Shape:
    """What was declared of a class, from which its methods are written when they are needed."""

    __slots__ = ("fields", "frozen", "owner", "slots")

    def __init__(self, fields: dict[str, Field], *, frozen: bool, slots: bool) -> None:
        self.fields, self.frozen, self.slots = fields, frozen, slots
        self.owner: Any = None

    @property
    def positional(self) -> list[Field]:
        return [each for each in self.fields.values() if each.init and not each.kw_only]

    @property
    def keywords(self) -> list[Field]:
        return [each for each in self.fields.values() if each.init and each.kw_only]


# --- declaring a class ------------------------------------------------------------------------------------------------


def _dataclass(
    cls: Any = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False
) -> Any:
    if cls is None:
        return lambda cls: _dataclass(cls, frozen=frozen, slots=slots, eq=eq, kw_only=kw_only)
    shape = Shape(_fields(cls, kw_only=kw_only), frozen=frozen, slots=slots)
    namespace = _methods(cls, shape, eq=eq)
    if slots:
        cls = _with_slots(cls, namespace, shape)
    else:
        for name, method in namespace.items():
            setattr(cls, name, method)
    shape.owner = cls
    return cls


def _fields(cls: Any, *, kw_only: bool) -> dict[str, Field]:
    """Those of the bases, then its own; defaults stay in the class, as Python's do."""
    fields: dict[str, Field] = {}
    for base in cls.__mro__[:0:-1]:
        if SHAPE in base.__dict__:
            fields.update(base.__dict__[SHAPE].fields)
    for name, hint in cls.__annotations__.items():
        if not _is_of_the_class(hint):
            declared = cls.__dict__.get(name, MISSING)
            found = fields[name] = declared if isinstance(declared, Field) else Field(declared)
            found.name, found.type, found.kw_only = name, hint, kw_only
            if isinstance(declared, Field):
                _put_default(cls, found)
            elif declared.__class__.__hash__ is None:
                raise ValueError(f"{cls.__qualname__}.{name}: all instances would share this {type(declared)}")
    return fields


def _is_of_the_class(hint: Any) -> bool:
    text = hint if isinstance(hint, str) else repr(hint)
    return text.startswith(("ClassVar", "typing.ClassVar"))


def _put_default(cls: Any, field: Field) -> None:
    if field.default is MISSING:
        delattr(cls, field.name)
    else:
        setattr(cls, field.name, field.default)


def _methods(cls: Any, shape: Shape, *, eq: bool) -> dict[str, Any]:
    own = cls.__dict__
    methods: dict[str, Any] = {SHAPE: shape, "__dataclass_fields__": _FULL_FIELDS, "__dataclass_params__": _FULL_PARAMS}
    if "__init__" not in own:
        methods["__init__"] = _first_init(shape)
        methods["__signature__"] = _SIGNATURE
    methods["__match_args__"] = tuple(each.name for each in shape.positional)
    methods["__repr__"] = own.get("__repr__", _repr)
    if eq:
        methods["__eq__"] = own.get("__eq__") or _later(shape, "__eq__", _write_eq)
        has_hash = own.get("__hash__") is not None
        if not has_hash:
            methods["__hash__"] = _later(shape, "__hash__", _write_hash) if shape.frozen else None
    if shape.frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if shape.slots and "__getstate__" not in own:
            methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    return methods


def _with_slots(cls: Any, namespace: dict[str, Any], shape: Shape) -> Any:
    """The class once more: slots can only be there from its beginning."""
    inherited = {slot for base in cls.__mro__[1:-1] for slot in _slots_of(base)}
    attributes = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in shape.fields and name not in ("__dict__", "__weakref__")
    }
    attributes["__slots__"] = tuple(name for name in shape.fields if name not in inherited)
    made = type(cls)(cls.__name__, cls.__bases__, attributes | namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _slots_of(base: Any) -> Iterable[str]:
    slots = base.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots


# --- methods that all classes share -----------------------------------------------------------------------------------


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (each.name for each in getattr(self, SHAPE).fields.values() if each.repr)
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    _refuse(self, name, "assign to")
    set_attribute(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    _refuse(self, name, "delete")
    object.__delattr__(self, name)


def _refuse(self: Any, name: str, verb: str) -> None:
    from dataclasses import FrozenInstanceError

    if SHAPE in type(self).__dict__ or name in getattr(self, SHAPE).fields:
        raise FrozenInstanceError(f"cannot {verb} field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, SHAPE).fields]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, SHAPE).fields, state, strict=True):
        set_attribute(self, name, value)


# --- methods that are written when they are first called --------------------------------------------------------------


def _later(shape: Shape, name: str, write: Callable[[Shape], Any]) -> Any:
    def first(self: Any, *arguments: Any, **named: Any) -> Any:
        return _written(shape, name, write)(self, *arguments, **named)

    return first


def _first_init(shape: Shape) -> Any:
    """Makes the first few by a loop over the fields, then the constructor is written."""
    made = 0

    def first(self: Any, *arguments: Any, **named: Any) -> None:
        nonlocal made
        made += 1
        if made > WALKED or not _fill(self, shape, arguments, named):
            _written(shape, "__init__", _write_init)(self, *arguments, **named)

    return first


def _fill(made: Any, shape: Shape, arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Set what the written constructor would; False if that has to say what is wrong with the arguments."""
    places = [each.name for each in shape.positional]
    values = dict(zip(places, arguments, strict=False))
    if len(arguments) > len(places) or not values.keys().isdisjoint(named):
        return False
    values |= named
    known = {name for name, each in shape.fields.items() if each.init}
    if not values.keys() <= known or any(name not in values and not shape.fields[name].has_default for name in known):
        return False
    put = set_attribute if shape.frozen else setattr
    for name, each in shape.fields.items():
        if name in values and values[name] is not MISSING:
            put(made, name, values[name])
        elif each.default_factory is not MISSING:
            put(made, name, each.default_factory())
        elif each.init or (shape.slots and each.default is not MISSING):
            put(made, name, each.default)
    if hasattr(shape.owner, "__post_init__"):
        made.__post_init__()
    return True


def _written(shape: Shape, name: str, write: Callable[[Shape], Any]) -> Any:
    """The method, in its place from now on. Two threads may both come here, and write the same."""
    method = write(shape)
    method.__qualname__ = f"{shape.owner.__qualname__}.{name}"
    setattr(shape.owner, name, method)
    return method


def _compiled(name: str, head: str, lines: Iterable[str], scope: dict[str, Any]) -> Any:
    body = "\n ".join(lines) or "pass"
    exec(compile(f"def {name}({head}):\n {body}", f"<{name} of a dataclass>", "exec"), scope)
    return scope[name]


def _write_init(shape: Shape) -> Any:
    scope: dict[str, Any] = {"MISSING": MISSING, "set_attribute": set_attribute}
    keywords = [_argument(each, scope) for each in shape.keywords]
    head = ["self", *(_argument(each, scope) for each in shape.positional), *(["*", *keywords] if keywords else [])]
    lines = [line for each in shape.fields.values() for line in _assignment(shape, each, scope)]
    if hasattr(shape.owner, "__post_init__"):
        lines.append("self.__post_init__()")
    made = _compiled("__init__", ", ".join(head), lines, scope)
    made.__annotations__ = {each.name: each.type for each in shape.fields.values() if each.init} | {"return": None}
    return made


def _argument(field: Field, scope: dict[str, Any]) -> str:
    if not field.has_default:
        return field.name
    scope[f"default_{field.name}"] = field.default  # MISSING where there is a factory
    return f"{field.name}=default_{field.name}"


def _assignment(shape: Shape, field: Field, scope: dict[str, Any]) -> list[str]:
    name, value = field.name, field.name
    if field.default_factory is not MISSING:
        scope[f"make_{name}"] = field.default_factory
        value = f"make_{name}() if {name} is MISSING else {name}" if field.init else f"make_{name}()"
    elif not field.init:
        if not shape.slots or field.default is MISSING:
            return []  # the class has its default, or its __post_init__ sets it
        scope[f"default_{name}"] = field.default
        value = f"default_{name}"
    if not shape.frozen:
        return [f"self.{name} = {value}"]
    slot = getattr(shape.owner, name, None)
    if isinstance(slot, MemberDescriptorType):
        scope[f"set_{name}"] = slot.__set__
        return [f"set_{name}(self, {value})"]
    return [f"set_attribute(self, {name!r}, {value})"]


def _write_eq(shape: Shape) -> Any:
    names = [each.name for each in shape.fields.values() if each.compare]
    mine, others = (f"({''.join(f'{side}.{name}, ' for name in names)})" for side in ("self", "other"))
    lines = ["if other.__class__ is self.__class__:", f" return {mine} == {others}", "return NotImplemented"]
    return _compiled("__eq__", "self, other", lines, {})


def _write_hash(shape: Shape) -> Any:
    names = [each.name for each in shape.fields.values() if each.hash]
    return _compiled("__hash__", "self", [f"return hash(({''.join(f'self.{name}, ' for name in names)}))"], {})


# --- for those who ask as if it were a full dataclass -----------------------------------------------------------------


class _Asked:
    """An attribute of the class that is made when somebody asks the class for it."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Shape], Any]) -> None:
        self._make = make

    def __get__(self, instance: object, owner: Any) -> Any:
        return self._make(getattr(owner, SHAPE))


def _full_fields(shape: Shape) -> dict[str, dataclasses.Field[Any]]:
    import dataclasses

    full: dict[str, Any] = {}
    for name, each in shape.fields.items():
        named = {"default": each.default, "default_factory": each.default_factory}
        known = {word: value for word, value in named.items() if value is not MISSING}
        made: Any = dataclasses.field(
            init=each.init, repr=each.repr, hash=each.hash, compare=each.compare, kw_only=each.kw_only, **known
        )
        made.name, made.type, made._field_type = name, each.type, dataclasses._FIELD  # type: ignore[attr-defined]
        full[name] = made
    return full


def _full_params(shape: Shape) -> Any:
    import dataclasses

    probe: Any = type("Probe", (), {})
    return dataclasses.dataclass(frozen=shape.frozen)(probe).__dataclass_params__


def _signature(shape: Shape) -> inspect.Signature:
    import inspect

    made = inspect.signature(_write_init(shape))
    return made.replace(parameters=list(made.parameters.values())[1:])


_FULL_FIELDS: Final = _Asked(_full_fields)
_FULL_PARAMS: Final = _Asked(_full_params)
_SIGNATURE: Final = _Asked(_signature)


def _replace(obj: Any, /, **changes: Any) -> Any:
    """A new object with these values in place of its own."""
    shape = getattr(obj, SHAPE, None)
    if shape is None:
        import dataclasses

        return dataclasses.replace(obj, **changes)
    for name, each in shape.fields.items():
        if each.init and name not in changes:
            changes[name] = getattr(obj, name)
    return obj.__class__(**changes)


def _light_fields(cls: Any) -> tuple[Field, ...]:
    return tuple(getattr(cls, SHAPE).fields.values())


def _is_light(value: Any) -> bool:
    return hasattr(value, SHAPE)


if not TYPE_CHECKING:
    dataclass, field, fields, is_dataclass, replace = _dataclass, Field, _light_fields, _is_light, _replace
