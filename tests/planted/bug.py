"""A planted bug as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ottla.simulation.plan import Plan

SOURCE = Path(__file__).parent.parent.parent / "src"


@dataclass(frozen=True)
class Bug:
    """See the package. `file` is below src/ottla. `needs`, `brokers`, `kinds`, `client_kinds` and `fits` say which
    schedules can show it."""

    name: str
    file: str
    old: str
    new: str
    breaks: str
    resembles: str
    needs: tuple[str, ...] = ()
    brokers: int | None = 3
    kinds: tuple[str, ...] = ()
    client_kinds: tuple[str, ...] = ()
    fits: Callable[[Plan], bool] = lambda plan: True
    more: tuple[tuple[str, str, str], ...] = ()  # file, old and new text: a defence behind the defence
    python: bool = False  # it is in the Python twin of a native leaf

    @property
    def edits(self) -> tuple[tuple[str, str, str], ...]:
        return ((self.file, self.old, self.new), *self.more)

    def shows(self, plan: Plan) -> bool:
        """Whether a schedule with this plan can show it."""
        return (
            set(self.needs) <= set(plan.loads)
            and set(self.client_kinds) <= set(plan.client_kinds)
            and (not self.kinds or bool(set(self.kinds) & set(plan.kinds)))
            and self.fits(plan)
            and bool(plan.kinds + plan.client_kinds)
        )

    def problem(self, source: Path = SOURCE) -> str | None:
        """Why it does not apply to this source; None when it does."""
        for file, old, _ in self.edits:
            path = source / "ottla" / file
            if not path.exists():
                return f"{self.name}: there is no {file}"
            if (count := path.read_text().count(old)) != 1:
                return f"{self.name}: the old text stands {count} times in {file}"
        return None

    def apply(self, source: Path) -> None:
        if (problem := self.problem(source)) is not None:
            raise ValueError(problem)
        for file, old, new in self.edits:
            path = source / "ottla" / file
            path.write_text(path.read_text().replace(old, new))
