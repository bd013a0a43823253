"""What a model of entailment, or of fact checking, says of each claim and the sentences near it."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from rubric_core.arrays import FloatArray
from rubric_core.errors import needing_extra
from rubric_core.files import toml_beside
from rubric_judge.claims.claim import Claim
from rubric_judge.claims.finding import Answer, Finding, is_about, required_share
from rubric_judge.claims.folders import (
    architecture,
    content_hash,
    model_folder,
    model_settings,
)
from rubric_judge.claims.reading import Clause, plain
from rubric_judge.claims.verdicts import match
from rubric_judge.errors import JudgeSetupError

if TYPE_CHECKING:
    from rubric_judge.claims.encoder import PairReader

_KEY: Final = "entailment"
_NAMES: Final = toml_beside(__file__, "labels.toml")
_SENTENCES: Final = 4
"""Sentences of an answer that are compared with one claim, those that share most with it."""
_LIKELY: Final = 0.5


class Labels(NamedTuple):
    """Which of a model's labels say what; None where it has no such label."""

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
    named = settings.get("id2label")
    by_place = cast("dict[str, str]", named) if isinstance(named, dict) else {}
    folded = {
        str(label).lower().replace("-", "_"): int(place)
        for place, label in by_place.items()
    }

    def place_of(names: Iterable[str]) -> int | None:
        return next((folded[name] for name in names if name in folded), None)

    if (entailment := place_of(_NAMES["entailment"])) is None:
        found = ", ".join(sorted(map(str, by_place.values()))) or "none"
        raise JudgeSetupError(
            f"entailment: {folder} has no label of entailment (its labels: {found}): give a "
            "model of MNLI or of fact checking, or write into id2label of its config.json "
            "which label is `entailment` or `supported`"
        )
    return Labels(entailment, place_of(_NAMES["contradiction"]))


class Verifier:
    """Asks a model whether sentences of an answer entail a claim, or contradict it."""

    def __init__(self, folder: Path) -> None:
        """Look at a folder.

        Args:
            folder: of a sequence-classification model with a label of entailment.

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
            from rubric_judge.claims.encoder import PairReader
        return PairReader(self.folder, key=_KEY)

    def verified(
        self, claims: Sequence[Claim], answer: Answer, found: Sequence[Finding]
    ) -> list[Finding]:
        """Decide each claim by the model.

        Args:
            claims: what is true.
            answer: what is said.
            found: what the program found of each. A value that is another one stays
                contradicted: programs compare figures, and models of entailment often do not.
        """
        near = [
            _nearest(claim, answer, finding)
            for claim, finding in zip(claims, found, strict=True)
        ]
        pairs = [
            (plain(sentence.text), plain(claim.clause.text))
            for claim, sentences in zip(claims, near, strict=True)
            for sentence in sentences
        ]
        read = iter(self._reader.probabilities(pairs) if pairs else ())
        return [
            self._decided(
                claim, sentences, [next(read) for _ in sentences], answer, one
            )
            for claim, sentences, one in zip(claims, near, found, strict=True)
        ]

    def _decided(
        self,
        claim: Claim,
        sentences: Sequence[Clause],
        rows: Sequence[FloatArray],
        answer: Answer,
        found: Finding,
    ) -> Finding:
        if found.is_value or not sentences:
            return found if found.is_value else Finding("absent", 0.0)
        said, where = max(
            (float(row[self.labels.entailment]), -place)
            for place, row in enumerate(rows)
        )
        if self.labels.contradiction is not None:
            against, place = max(
                (float(row[self.labels.contradiction]), -place)
                for place, row in enumerate(rows)
            )
            if against > max(said, _LIKELY):
                text = sentences[-place].text
                return Finding(
                    "contradicted", 0.0, text, f"contradiction {against:.2f}"
                )
        text = sentences[-where].text
        if said < _LIKELY:
            return Finding("absent", 0.0, text, f"entailment {said:.2f}")
        credit, lacking = required_share(claim, answer, said)
        why = f"entailment {said:.2f}{lacking and f'; {lacking}'}"
        return Finding("stated", credit, text, why)


def _nearest(claim: Claim, answer: Answer, found: Finding) -> list[Clause]:
    """Return the sentences that share most with a claim, and the one where the program found it."""

    def rank(sentence: Clause) -> tuple[bool, float]:
        is_found = bool(found.where) and found.where in sentence.text
        return is_found, match(claim.clause, sentence).coverage

    about = [clause for clause in answer.sentences if is_about(claim, clause)]
    return sorted(about, key=rank, reverse=True)[:_SENTENCES]
