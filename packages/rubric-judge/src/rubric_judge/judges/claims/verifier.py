"""Verification of claims by a model of entailment, or of fact checking."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from rubric_core.arrays import FloatArray
from rubric_core.errors import needing_extra
from rubric_core.files import toml_beside
from rubric_judge.errors import JudgeSetupError
from rubric_judge.judges.claims.claim import Claim
from rubric_judge.judges.claims.finding import Answer, Finding, is_about, required_share
from rubric_judge.judges.claims.folders import (
    architecture,
    content_hash,
    model_folder,
    model_settings,
)
from rubric_judge.judges.claims.reading import Clause, plain
from rubric_judge.judges.claims.verdicts import match

if TYPE_CHECKING:
    from rubric_judge.judges.claims.encoder import PairReader

_KEY = "entailment"
_NAMES = toml_beside(__file__, "labels.toml")
_SENTENCES = 4
"""Number of sentences that are compared with a claim: those that share most with it."""
_LIKELY = 0.5


class Labels(NamedTuple):
    """Positions of a model's labels; None where it has no such label."""

    entailment: int
    contradiction: int | None


def labels_of(settings: Mapping[str, object], *, folder: Path) -> Labels:
    """Find the labels of entailment and of contradiction.

    Args:
        settings: a config.json.
        folder: where it is.

    Raises:
        JudgeSetupError: the model is for another task, or has no label of entailment.
    """
    kind = architecture(settings)
    if not kind.endswith("ForSequenceClassification"):
        raise JudgeSetupError(
            f"entailment: {folder} holds no model for sequence classification (its architecture: "
            f"{kind or 'none'}): give one of MNLI or of fact checking"
        )
    labels_by_place = settings.get("id2label")
    by_place = (
        cast("dict[str, str]", labels_by_place)
        if isinstance(labels_by_place, dict)
        else {}
    )
    folded = {
        str(label).lower().replace("-", "_"): int(place)
        for place, label in by_place.items()
    }

    def place_of(names: Iterable[str]) -> int | None:
        for name in names:
            if name in folded:
                return folded[name]
        return None

    entailment = place_of(_NAMES["entailment"])
    if entailment is None:
        names = sorted(str(label) for label in by_place.values())
        labels = ", ".join(names) or "none"
        raise JudgeSetupError(
            f"entailment: {folder} has no label of entailment (its labels: {labels}): give a "
            "model of MNLI or of fact checking, or write into id2label of its config.json "
            "which label is `entailment` or `supported`"
        )
    return Labels(entailment, place_of(_NAMES["contradiction"]))


class Verifier:
    """Model that tells whether sentences of an answer entail a claim, or contradict it."""

    def __init__(self, folder: Path) -> None:
        """Check a model folder; its weights are read when used.

        Args:
            folder: folder of a sequence-classification model with a label of entailment.

        Raises:
            JudgeSetupError: it cannot be read, or is of a model for something else.
        """
        self.folder = model_folder(str(folder), key=_KEY)
        self.labels = labels_of(
            model_settings(self.folder, key=_KEY), folder=self.folder
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the model's files."""
        return content_hash(self.folder)

    def load(self) -> None:
        """Read the weights.

        Raises:
            JudgeSetupError: they cannot be read.
            MissingExtraError: transformers is not installed.
        """
        _ = self._reader

    @cached_property
    def _reader(self) -> "PairReader":
        with needing_extra(
            "rubric-judge", "models", by="a claim judge with `entailment:`"
        ):
            from rubric_judge.judges.claims.encoder import PairReader
        return PairReader(self.folder, key=_KEY)

    def verified(
        self, claims: Sequence[Claim], answer: Answer, findings: Sequence[Finding]
    ) -> list[Finding]:
        """Decide each claim by the model.

        Args:
            claims: true statements.
            answer: the answer to check.
            findings: the program's finding for each. A claim contradicted by another value stays
                contradicted: programs compare figures, and models of entailment often do not.
        """
        nearest = [
            _nearest(claim, answer, finding)
            for claim, finding in zip(claims, findings, strict=True)
        ]
        pairs: list[tuple[str, str]] = []
        for claim, sentences in zip(claims, nearest, strict=True):
            text = plain(claim.clause.text)
            pairs += [(plain(sentence.text), text) for sentence in sentences]
        rows: Sequence[FloatArray] = ()
        if pairs:
            rows = list(self._reader.probabilities(pairs))
        decided: list[Finding] = []
        start = 0
        for claim, sentences, finding in zip(claims, nearest, findings, strict=True):
            end = start + len(sentences)
            claim_rows = rows[start:end]
            decided.append(self._decided(claim, sentences, claim_rows, answer, finding))
            start = end
        return decided

    def _decided(
        self,
        claim: Claim,
        sentences: Sequence[Clause],
        rows: Sequence[FloatArray],
        answer: Answer,
        finding: Finding,
    ) -> Finding:
        if finding.is_value:
            return finding
        if not sentences:
            return Finding("absent", 0.0)
        entailed, where = max(
            (float(row[self.labels.entailment]), -place)
            for place, row in enumerate(rows)
        )
        if self.labels.contradiction is not None:
            against, place = max(
                (float(row[self.labels.contradiction]), -place)
                for place, row in enumerate(rows)
            )
            if against > max(entailed, _LIKELY):
                text = sentences[-place].text
                why = f"contradiction {against:.2f}"
                return Finding("contradicted", 0.0, text, why)
        text = sentences[-where].text
        if entailed < _LIKELY:
            return Finding("absent", 0.0, text, f"entailment {entailed:.2f}")
        credit, lacking = required_share(claim, answer, entailed)
        why = f"entailment {entailed:.2f}"
        if lacking:
            why += f"; {lacking}"
        return Finding("stated", credit, text, why)


def _nearest(claim: Claim, answer: Answer, finding: Finding) -> list[Clause]:
    """Return the sentences that share most with a claim, with the one where it was found."""

    def rank(sentence: Clause) -> tuple[bool, float]:
        is_found = bool(finding.where) and finding.where in sentence.text
        return is_found, match(claim.clause, sentence).coverage

    about = [clause for clause in answer.sentences if is_about(claim, clause)]
    return sorted(about, key=rank, reverse=True)[:_SENTENCES]
