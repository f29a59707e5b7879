"""What pytest does to our modules because we bring it a plugin: nothing."""

import sys

import ottla.broker.server


def test_modules_of_ottla_are_not_rewritten_by_pytest():
    finders = [finder for finder in sys.meta_path if hasattr(finder, "_must_rewrite")]
    assert finders, "pytest keeps its list elsewhere now: see testing/plugin.py"
    assert not any({"ottla", "pyspark_ottla"} & finder._must_rewrite for finder in finders)
    assert type(ottla.broker.server.__loader__).__module__.startswith("_frozen_importlib")
