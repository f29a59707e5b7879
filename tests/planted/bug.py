"""A planted bug as a value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent / "src"


@dataclass(frozen=True)
class Bug:
    """See the package. `file` is below src/ottla."""

    name: str
    file: str
    old: str
    new: str
    breaks: str
    resembles: str
    needs: tuple[str, ...] = ()
    brokers: int | None = 3
    kinds: tuple[str, ...] = ()

    def problem(self, source: Path = SOURCE) -> str | None:
        """Why it does not apply to this source; None when it does."""
        path = source / "ottla" / self.file
        if not path.exists():
            return f"{self.name}: there is no {self.file}"
        count = path.read_text().count(self.old)
        return None if count == 1 else f"{self.name}: the old text stands {count} times in {self.file}"

    def apply(self, source: Path) -> None:
        if (problem := self.problem(source)) is not None:
            raise ValueError(problem)
        path = source / "ottla" / self.file
        path.write_text(path.read_text().replace(self.old, self.new))
