"""One command, nouns then verbs: `ottla broker start`, `ottla topic list`."""
