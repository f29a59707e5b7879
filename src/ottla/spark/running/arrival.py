"""Our objects check the Python that they arrive in, before anything of them is used there.

Spark pickles our source, reader and writer on the driver and loads them on executors. Where ottla is not installed, or
is another version, that ends with an error of pickle or, worse, much later. So what is pickled is a call of `arrive`,
and `arrive` itself travels as code (cloudpickle, by value): it runs where there is no ottla, and says so.

    RuntimeError: ottla is not installed for /usr/bin/python3 on host-7. Install ottla 0.1.0 there ...

1. `arrive` imports what it needs inside: it must not need anything of this package.
2. The check compares versions of ottla and costs microseconds; what loads is the object as it was pickled.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark import cloudpickle

import ottla


def arrive(version: str, pickled: bytes) -> Any:
    """Load the object, or say what is wrong with this Python."""
    import pickle
    import platform
    import sys

    where = f"{sys.executable} on {platform.node()}"
    cure = (
        f"Install ottla {version} there, or send it along: `ottla spark pack` makes the archive, `ottla spark doctor`"
        " checks the set-up (docs/spark.md, Clusters)."
    )
    try:
        import ottla as found
    except ImportError as error:
        if error.name not in (None, "ottla"):
            raise RuntimeError(f"ottla cannot be loaded by {where}: {error}. {cure}") from None
        raise RuntimeError(f"ottla is not installed for {where}. {cure}") from None
    there = getattr(found, "__version__", "unknown")
    if there != version:
        raise RuntimeError(f"the driver has ottla {version}, and {where} has {there}. {cure}")
    try:
        kind, state = pickle.loads(pickled)
    except ModuleNotFoundError as error:
        raise RuntimeError(f"{where} has no {error.name}, which ottla needs for rows. {cure}") from None
    made = kind.__new__(kind)
    made.__dict__.update(state or {})
    return made


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Arriving:
    """What is checked where it arrives: inherit it first."""

    def __reduce__(self) -> tuple[Any, ...]:
        pickled = cloudpickle.dumps((type(self), self.__getstate__()))  # type: ignore[no-untyped-call]
        return arrive, (ottla.__version__, pickled)
