"""Types of the native twin: those of data_path.py."""

from ottla.net.tls.data_path import DataPath as DataPath
