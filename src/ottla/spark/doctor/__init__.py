"""Is this Spark set up for format("ottla")? Tasks report what they find, and sentences tell what to do about it."""
