"""Logins, timed by what others notice: parts.py tells."""

from bench.logins.parts import main

main()
