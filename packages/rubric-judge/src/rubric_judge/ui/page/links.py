"""Addresses of samples, and tables whose rows lead to them.

A page that shows samples, such as `rubric-judge view` makes, reads what is chosen from the part of
its address after the #: the names of its filters with their values.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from rubric_judge.ui.page.charts import Bars
from rubric_judge.ui.page.tables import Row, Table

AT_STEP = "{step}"
"""Stands for the step of a chart's point in the address that the point leads to."""


def link_to(page: str, **choice: str) -> str:
    """Return the address of a choice of samples.

    Args:
        page: path of the page from where the link stands; empty on the page itself.
        choice: what is chosen, by the names of the page's filters, such as `criterion` (an id or a
            kind), `outcome`, `step`, `differ`, `sort`, `sample`; empty ones are left out.
    """
    parts = "&".join(
        f"{name}={quote(value, safe='{}')}" for name, value in choice.items() if value
    )
    return f"{page}#{parts}"


def linked(table: Table, address: Callable[[Row], str]) -> Table:
    """Return a table whose rows lead to samples.

    Args:
        table: the table.
        address: the address that a row leads to; empty where it leads nowhere.
    """
    rows = (row.model_copy(update={"link": address(row)}) for row in table.rows)
    return table.model_copy(update={"rows": tuple(rows)})


@dataclass(frozen=True)
class Leads:
    """Ways from the bars and tables of a report to the samples behind them."""

    page: str
    """Path of the page of samples from the report; it is private."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Addresses by the names of bars and rows."""
    others: str = ""
    """Address of the samples behind a table none of whose rows is named; the page if empty."""

    def bars(self, bars: Bars) -> Bars:
        """Return bars whose names lead to their samples."""
        return bars.linked(self.names)

    def table(self, table: Table) -> Table:
        """Return a table whose names lead to their samples."""
        return linked(table, lambda row: self.names.get(row.name, ""))
