"""Which kafka-python this package stands in for; `ottla.__version__` is ours."""

__version__ = "3.0.12"
