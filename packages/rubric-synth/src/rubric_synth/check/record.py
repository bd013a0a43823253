"""What a manifest says: whether it is consistent in itself, and the rules that it gives."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rubric_core.configuration import config_error
from rubric_synth.dataset import CARD_FILE, MANIFEST_FILE, REJECTED_FILE, SPLITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from rubric_synth.dataset import Manifest

_LONGEST_NAME: Final = 80


class _Quality(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    min_criteria: int = Field(ge=1)
    max_criteria: int = Field(ge=1)
    leak_words: int = Field(ge=3)
    near_duplicate_question_jaccard: float = Field(gt=0.0, le=1.0)

    @model_validator(mode="after")
    def _ordered(self) -> _Quality:
        if self.max_criteria < self.min_criteria:
            raise ValueError("max_criteria is below min_criteria")
        return self


class Rules(BaseModel):
    """What a check needs of the configuration that the manifest holds."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    train_frac: float = Field(gt=0.0, lt=1.0)
    validation_frac: float = Field(gt=0.0, lt=1.0)
    quality: _Quality

    @model_validator(mode="after")
    def _leaves_a_test_split(self) -> Rules:
        if self.train_frac + self.validation_frac >= 1.0:
            raise ValueError("train_frac and validation_frac leave nothing for the test split")
        return self


def rules_of(config: Mapping[str, Any]) -> tuple[Rules | None, list[str]]:
    """Return the rules that a manifest's configuration gives, or what is wrong with them."""
    try:
        return Rules.model_validate(config), []
    except ValidationError as error:
        wrong = config_error(error, model=Rules, source=f"{MANIFEST_FILE}: config")
        return None, str(wrong).splitlines()


def record_problems(dataset: Path, manifest: Manifest) -> Iterator[str]:
    """Compare the parts of a manifest with each other, and its files with those of the folder."""
    for name in manifest.tasks.keys() - set(SPLITS):
        yield f"{MANIFEST_FILE} counts tasks of {shown_file(name)}, which is no split"
    by_reason: dict[str, int] = {}
    for reasons in manifest.rejected_by_stage.values():
        for reason, count in reasons.items():
            by_reason[reason] = by_reason.get(reason, 0) + count
    if by_reason != manifest.rejected:
        yield f"{MANIFEST_FILE}: rejected is not the sum of rejected_by_stage"
    stages = manifest.usage.by_stage.values()
    if sum(totals.calls for totals in stages) > manifest.usage.total.calls:
        yield f"{MANIFEST_FILE}: the stages have more calls than all of them together"
    written = [*(f"{split}.jsonl" for split in SPLITS), REJECTED_FILE, CARD_FILE]
    tables = [name for split in SPLITS if (dataset / (name := f"{split}.parquet")).exists()]
    for name in [*written, *tables]:
        if name not in manifest.sha256:
            yield f"{MANIFEST_FILE} has no hash of {name}"


def is_plain(name: str) -> bool:
    """Whether a name is that of a file right inside of a folder."""
    is_whole = PurePath(name).name == name and name not in {"", ".", ".."}
    return is_whole and len(name) <= _LONGEST_NAME and not {"\\", "\0"} & set(name)


def shown_file(name: str) -> str:
    """Return a name of a manifest for a message."""
    return repr(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…")


_SHOWN: Final = 200


class CheckReport(BaseModel):
    """The result of a check."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: dict[str, int]
    """Tasks read, by split."""
    problems: tuple[str, ...]
    """One line per problem, the first of them; empty for a sound dataset."""
    problem_count: int = 0
    """How many problems there are."""


class Problems:
    """Problems as they are found; only the first are kept in words."""

    def __init__(self) -> None:
        """Begin without one."""
        self._shown: list[str] = []
        self._count = 0

    def add(self, problem: str) -> None:
        """Note one problem."""
        self._count += 1
        if len(self._shown) < _SHOWN:
            self._shown.append(problem)

    def extend(self, problems: Iterable[str]) -> None:
        """Note several."""
        for problem in problems:
            self.add(problem)

    def report(self, tasks: dict[str, int]) -> CheckReport:
        """Return what was found, with a last line for what is not shown."""
        left = self._count - len(self._shown)
        more = [f"… and {left} more"] if left else []
        return CheckReport(tasks=tasks, problems=(*self._shown, *more), problem_count=self._count)
