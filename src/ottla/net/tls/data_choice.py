"""How the data of a TLS connection goes: native where ottla.native says so, in Python otherwise."""

from __future__ import annotations

from ottla.native import is_native

if is_native("ottla.net.tls._data_path"):
    from ottla.net.tls._data_path import DataPath
else:
    from ottla.net.tls.data_path import DataPath

__all__ = ["DataPath"]
