"""Regular expressions in RE2's syntax, matched in bounded time."""
