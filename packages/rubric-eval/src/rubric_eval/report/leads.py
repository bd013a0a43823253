"""Addresses of answers on the page of an evaluation, from its tables and bars."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from rubric_judge.ui.page.charts import Bars
from rubric_judge.ui.page.links import link_to
from rubric_judge.ui.page.tables import Cell, Row, Table

HELDOUT = "heldout"
"""Set of the held-out questions; each benchmark has one of its own name."""


def answers_of(
    shown: str, model: str, other: str = "", *, judge: str | None = None, **choice: str
) -> str:
    """Return the address of a model's answers, or of two models' side by side.

    Args:
        shown: the set of questions.
        model: a model, which stands on the right.
        other: the model on the left; the same, and thus alone, if empty.
        judge: whose rewards are shown; the first judge's if None.
        choice: further filters: `show`, `sort`, `field`, `criterion`.
    """
    sides = {"left": other or model, "right": model}
    return link_to("", set=shown, **sides, judge=judge or "", **choice)


@dataclass(frozen=True)
class Shown:
    """Models and judges whose answers are on a page, by set of questions."""

    models: Mapping[str, frozenset[str]]
    judges: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, excerpts: Mapping[str, Any]) -> Self:
        """Take them from the data of the page's script."""
        models: dict[str, frozenset[str]] = {}
        judges: dict[str, frozenset[str]] = {}
        for entry in excerpts["sets"]:
            models[entry["name"]] = frozenset((*entry["models"], *entry["controls"]))
            judges[entry["name"]] = frozenset(entry["judges"])
        return cls(models, judges)

    def table(self, table: Table) -> Table:
        """Return a table without the links that lead to answers that the page does not hold."""
        rows: list[Row] = []
        for row in table.rows:
            cells = tuple(
                cell.model_copy(update={"link": self._known(cell.link)})
                if cell.link
                else cell
                for cell in row.cells
            )
            update = {"cells": cells, "link": self._known(row.link)}
            rows.append(row.model_copy(update=update))
        return table.model_copy(update={"rows": tuple(rows)})

    def bars(self, bars: Bars) -> Bars:
        """Return bars without such links."""
        kept = (replace(bar, link=self._known(bar.link)) for bar in bars.bars)
        return replace(bars, bars=tuple(kept))

    def _known(self, link: str) -> str:
        named = {
            name: values[0]
            for name, values in parse_qs(urlsplit(link).fragment).items()
        }
        models = self.models.get(named.get("set", ""), frozenset[str]())
        judges = self.judges.get(named.get("set", ""), frozenset[str]())
        sides = {named[name] for name in ("left", "right") if name in named}
        asked = {named["judge"]} if "judge" in named else set[str]()
        return link if models and sides <= models and asked <= judges else ""


def leading(cell: Cell, link: str) -> Cell:
    """Return a cell that leads to answers."""
    return cell.model_copy(update={"link": link})
