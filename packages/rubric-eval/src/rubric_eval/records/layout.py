"""Where an evaluation keeps what, under its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rubric_core.locks import LOCK_FILE


@dataclass(frozen=True)
class EvalFolder:
    """Paths of one evaluation; nothing is read or made here."""

    root: Path

    @property
    def run(self) -> Path:
        """Manifest, an `EvalRun`."""
        return self.root / "run.json"

    @property
    def lock(self) -> Path:
        """Held by the process that evaluates."""
        return self.root / LOCK_FILE

    @property
    def questions(self) -> Path:
        """Lines of `QuestionRow`."""
        return self.root / "questions.jsonl"

    @property
    def heldout(self) -> Path:
        """The paper's Table 1 and the judges side by side; there only when they are complete."""
        return self.root / "heldout.json"

    @property
    def transfer(self) -> Path:
        """The paper's Table 2; there only when it is complete."""
        return self.root / "transfer.json"

    @property
    def ledger(self) -> Path:
        """Judgements by content, `rubric_judge.Ledger`."""
        return self.root / "ledger.sqlite"

    @property
    def comparison(self) -> Path:
        """What `compare` found, with the hash of what it compared."""
        return self.root / "comparison.json"

    @property
    def hacking(self) -> Path:
        """What `hacking` found, with the hash of what it looked at."""
        return self.root / "hacking.json"

    @property
    def report(self) -> Path:
        """The page."""
        return self.root / "report.html"

    @property
    def tables(self) -> Path:
        """The paper's tables as .md, .tex and .json."""
        return self.root / "tables"

    def answers(self, model: str, seed: int) -> Path:
        """Lines of `AnswerRow`, in the order in which they came."""
        return self.root / "answers" / model / _of(seed)

    def answered_by(self, model: str) -> Path:
        """Which weights a server answered with; there only where servers say so."""
        return self.root / "answers" / model / "weights.json"

    def scores(self, judge: str, model: str, seed: int) -> Path:
        """Lines of `ScoreRow`, in the order of the questions."""
        return self.root / "scores" / judge / model / _of(seed)

    def judgements(self, judge: str, model: str, seed: int) -> Path:
        """Lines of `JudgementRow`."""
        return self.root / "judgements" / judge / model / _of(seed)

    def items(self, benchmark: str, model: str, seed: int) -> Path:
        """Lines of `ItemRow`, in the order of the benchmark."""
        return self.root / "items" / benchmark / model / _of(seed)


def _of(seed: int) -> str:
    return f"seed_{seed}.jsonl"
