"""Numbers at the top of a page."""

from dataclasses import dataclass

from rubric_judge.ui.page.tables import Form, written


@dataclass(frozen=True)
class Figure:
    """One number at the top of a page: what it is now, and what it was before."""

    label: str
    value: float | str | None
    before: float | str | None = ""
    note: str = ""
    form: Form = "text"
    """How the two are written, where they are numbers."""

    @property
    def text(self) -> str:
        """The number now, as it is written."""
        return _figure_text(self.value, self.form)

    @property
    def text_before(self) -> str:
        """The number before, as it is written; empty where that is not said."""
        return _figure_text(self.before, self.form)


def _figure_text(value: float | str | None, form: Form) -> str:
    return value if isinstance(value, str) else written(value, form)
