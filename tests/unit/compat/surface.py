"""The public face of a module, of its classes and of their methods, and where ours differs from theirs."""

import ast
import inspect
import textwrap
import types
import typing

TYPING = {"log", "ABC", "abstractmethod", "TypeVar", "Self", "annotations", "Any"} | set(typing.__all__)
PLAIN = set(dir(object)) | {"__dict__", "__weakref__", "__module__", "__doc__", "__slots__", "__annotations__"}
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def public_names(module, package):
    """What a program imports from it: its __all__, or what it defines; a package shows what its modules define."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    names = set()
    for name, value in vars(module).items():
        if name.startswith("_") or isinstance(value, types.ModuleType) or name in TYPING:
            continue
        home = getattr(value, "__module__", None)
        inside = hasattr(module, "__path__") and isinstance(home, str) and home.partition(".")[0] == package
        if inside or home in (module.__name__, module.__name__.rpartition(".")[2]):
            names.add(name)
    return names


def public_members(kind):
    return {
        name
        for each in kind.__mro__
        if each is not object
        for name in vars(each)
        if not name.startswith("_") and each.__module__ not in ("builtins", "enum", "typing", "abc")
    }


def parameters(function):
    """Names in order, and whether it takes anything else; None when nobody knows."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    rest = any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in found)
    return [each.name for each in found if each.kind in (*POSITIONAL, each.KEYWORD_ONLY)], rest


def stub_parameters(path):
    """The same from a .pyi file: {(class, method): [[names]]}, with every overload."""
    found = {}
    for kind in ast.parse(path.read_text()).body:
        if isinstance(kind, ast.ClassDef):
            for each in kind.body:
                if isinstance(each, ast.FunctionDef):
                    names = [it.arg for it in (*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs)]
                    found.setdefault((kind.name, each.name), []).append(names)
    return found


def compare_parameters(where, theirs, ours):
    """Every argument of theirs is one of ours, in the same place."""
    if theirs is None or ours is None:
        return []
    (their_names, _), (our_names, takes_more) = theirs, ours
    missing = [name for name in their_names if name not in our_names]
    if missing and not takes_more:
        return [f"{where}({', '.join(missing)})"]
    shared = [name for name in their_names if name in our_names]
    if shared != [name for name in our_names if name in shared]:
        return [f"{where}: order is {our_names}, not {their_names}"]
    return []


def attributes(kind):
    """What its constructor sets, as far as it can be read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind.__init__)))
    except (OSError, TypeError):
        return set()
    return {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)}


def compare_classes(where, theirs, ours):
    if not isinstance(ours, type):
        return [f"{where} is no class"]
    shown = {name for name in public_members(theirs) if hasattr(ours, name)} | attributes(ours)
    found = [f"{where}.{name}" for name in sorted(public_members(theirs) - shown - PLAIN)]
    if not issubclass(theirs, BaseException | tuple):
        found += compare_parameters(where, parameters(theirs), parameters(ours))
    for name in sorted(each for each in public_members(theirs) if hasattr(ours, each)):
        their_member = inspect.getattr_static(theirs, name)
        if isinstance(their_member, staticmethod | classmethod):
            their_member = their_member.__func__
        our_member = getattr(ours, name)
        if inspect.isfunction(their_member):
            their_parameters = parameters(their_member)
            if their_parameters and their_parameters[0][:1] in (["self"], ["cls"]):
                their_parameters = (their_parameters[0][1:], their_parameters[1])
            our_parameters = parameters(our_member)
            if our_parameters and our_parameters[0][:1] in (["self"], ["cls"]):
                our_parameters = (our_parameters[0][1:], our_parameters[1])
            found += compare_parameters(f"{where}.{name}", their_parameters, our_parameters)
    return found


def compare_modules(theirs, ours, package):
    """What ours lacks: names, members of classes, arguments."""
    found = []
    for name in sorted(public_names(theirs, package)):
        where = f"{theirs.__name__}.{name}"
        value = getattr(theirs, name, None)
        if not hasattr(ours, name):
            found.append(where)
        elif isinstance(value, type):
            found += compare_classes(where, value, getattr(ours, name))
        elif inspect.isfunction(value):
            found += compare_parameters(where, parameters(value), parameters(getattr(ours, name)))
    return found
