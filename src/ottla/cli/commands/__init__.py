"""One file per noun. Each has `add_verbs(verbs)`, which adds its parsers; a parser's default `run` does the work."""
