"""A budget of steps for work whose amount somebody else decides.

Content that others sent (a schema, an expression, a record to look at) can be small and ask for hours. Whoever reads it
counts its steps with a Budget, and answers with an error when they are used up:

    budget = Budget(1_000_000, "the comparison of two schemas")
    budget.spend()                # for every step that the content can make more of; BudgetExceeded above the bound

1. Steps are counted, not time: the same content has the same answer on every machine, and a test needs no clock.
2. A step is a few hundred nanoseconds of Python; what costs more spends more.
3. A budget says what it was for, because somebody will read it in an answer.
"""

from __future__ import annotations


class BudgetExceeded(Exception):
    """The work takes more steps than it may."""


class Budget:
    """`steps` may be spent on `work`."""

    __slots__ = ("left", "steps", "work")

    def __init__(self, steps: int, work: str) -> None:
        self.steps = self.left = steps
        self.work = work

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise BudgetExceeded(f"{self.work} takes more than {self.steps} steps")
