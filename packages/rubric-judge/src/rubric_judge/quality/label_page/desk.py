"""The labelling desk, which serves the page its responses, raters and orders, without HTTP."""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import Field

from rubric_core import Criterion, JudgeView, SchemaError
from rubric_core.files import text_sha256
from rubric_core.rows import ClosedRow
from rubric_core.schema.judged import LAST_REPLY
from rubric_core.schema.trace import ExcerptPart
from rubric_core.traces.views import full_excerpt
from rubric_judge.pool.ledger.entry import hash_rubric
from rubric_judge.quality.labels import rows, sampling
from rubric_judge.quality.labels.store import LabelStore
from rubric_judge.quality.trajectories import heading, judged_places
from rubric_judge.ui.page.rendering import visible


class NotDrawnError(SchemaError):
    """A response or criterion that is not to be labelled here."""


class Cell(ClosedRow):
    """One criterion of one response, and the rater who labels it."""

    rater: rows.Rater
    line: Annotated[int, Field(ge=1)]
    criterion: str


class Scored(Cell):
    """A score that a rater has given by a key."""

    line: Annotated[int, Field(strict=True, ge=1)]
    score: rows.Score | None
    """The score; None where the rater cannot tell."""


@dataclass(frozen=True)
class Desk:
    """The drawn responses, the raters' orders and the file. The desk knows no judge's score."""

    source: rows.LabelSource
    drawn: list[sampling.Drawn]
    store: LabelStore
    seed: int
    rater: str | None = None
    """The only rater here; None where the page asks for a name."""

    @cached_property
    def _by_line(self) -> dict[int, sampling.Drawn]:
        return {drawn.line: drawn for drawn in self.drawn}

    @property
    def cells(self) -> int:
        """Number of labels wanted from each rater."""
        return sum(len(drawn.criteria) for drawn in self.drawn)

    def work(self, rater: str) -> dict[str, object]:
        """Return the cells that a rater is to label, in order, with the labels so far."""
        self._check_rater(rater)
        order = sampling.in_order(
            self.drawn,
            rater=rater,
            seed=self.seed,
        )
        place = {cell: i for i, cell in enumerate(order)}
        labels = [
            label
            for label in self.store.of(rater)
            if (label.line, label.criterion) in place
        ]
        return {
            "cells": [
                {"line": line, "criterion": criterion} for line, criterion in order
            ],
            "given": [
                {"place": place[label.line, label.criterion], "score": label.score}
                for label in labels
            ],
        }

    def raters(self) -> dict[str, object]:
        """Return the only rater, if any, and the number of labels of each rater."""
        return {"fixed": self.rater, "labels": self.store.raters()}

    def texts(self, line: int) -> dict[str, object]:
        """Return the texts that a rater reads, their control characters made visible."""
        view = self._view(line)
        drawn = self._by_line[line]
        criteria = {name: shown_criterion(view.rubric[name]) for name in drawn.criteria}
        texts: dict[str, object] = {
            "question": visible(view.question),
            "passage": visible(view.grounding.reveal()),
            "response": visible(view.response),
            "criteria": criteria,
        }
        trace = (self.source.traces or {}).get(line)
        if trace is not None:
            parts = full_excerpt(trace).parts
            texts["parts"] = [shown_part(part) for part in parts]
            for name, shown in criteria.items():
                judges = view.rubric[name].judges
                shown["judges"] = (judges or LAST_REPLY).replace("_", " ")
                shown["judged"] = judged_places(parts, judges)
        return texts

    def keep(self, scored: Scored) -> None:
        """Write a label; it is on the disk on return.

        Raises:
            SchemaError: it is not to be labelled, or the score is beyond the weight; or another
                program has changed the file.
            OSError: it could not be written.
        """
        self._check_rater(scored.rater)
        view = self._view(scored.line, scored.criterion)
        label = rows.Label(
            **scored.model_dump(),
            task_id=view.task_id,
            response_sha256=text_sha256(view.response),
            rubric_sha256=hash_rubric(view.rubric),
            at=time.time(),
            inclusion=self._by_line[scored.line].inclusion,
        )
        for field, problem in rows.label_problems(label, self.source):
            raise SchemaError(problem, field=field)
        self.store.put(label)

    def take_back(self, cell: Cell) -> None:
        """Remove a label, if it is there.

        Raises:
            SchemaError, OSError: as `keep`.
        """
        self._check_rater(cell.rater)
        self._view(cell.line, cell.criterion)
        self.store.remove((cell.rater, cell.line, cell.criterion))

    def _check_rater(self, rater: str) -> None:
        if self.rater not in (None, rater):
            raise NotDrawnError(
                f"only {self.rater!r} labels here: start another page for others"
            )

    def _view(self, line: int, criterion: str | None = None) -> JudgeView:
        drawn = self._by_line.get(line)
        views = self.source.views or {}
        if drawn is None or (criterion is not None and criterion not in drawn.criteria):
            raise NotDrawnError(
                f"response {line} or its criterion is not to be labelled here"
            )
        return views[line]


def shown_part(part: ExcerptPart) -> dict[str, object]:
    """Return a part of a trajectory, its control characters made visible."""
    return {
        "heading": heading(part),
        "turn": part.turn,
        "text": visible(part.text),
    }


def shown_criterion(criterion: Criterion) -> dict[str, object]:
    """Return the texts of a criterion, their control characters made visible."""
    texts = {
        "name": criterion.name or criterion.id,
        "description": criterion.description,
        "guide": criterion.scoring_guide,
    }
    elements = [visible(text) for text in criterion.required_elements]
    readable = {key: visible(text) for key, text in texts.items()}
    return {**readable, "elements": elements, "weight": criterion.weight}
