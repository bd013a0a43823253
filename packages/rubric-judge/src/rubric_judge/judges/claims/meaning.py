"""Nearness in meaning of sentences to claims, by a small model of sentence embeddings.

    nearness(claim, sentence) = (cos(claim, sentence) − floor) / (.6 − floor), within 0 and 1
    floor = max(.3, cos(claim, question) + .2)

The question is as near to a claim as a text can be that says nothing of it, so a sentence earns
credit only above that nearness: a vague one, which repeats the question, earns nothing.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from rubric_core.arrays import FloatArray
from rubric_core.errors import needing_extra
from rubric_judge.errors import JudgeSetupError
from rubric_judge.judges.claims.folders import (
    architecture,
    content_hash,
    model_folder,
    model_settings,
)
from rubric_judge.judges.claims.reading import plain

if TYPE_CHECKING:
    from rubric_judge.judges.claims.encoder import Encoder

_KEY = "embedding"
_FAR = 0.3
"""Cosine that a claim and a sentence on another subject seldom exceed."""
_SAME = 0.6
"""Cosine that a claim and its paraphrase mostly exceed."""
_GAIN = 0.2
"""Margin over the question's cosine that a sentence needs to earn anything."""
_LEAST_SPAN = 0.1
_DIGITS = 4
"""Digits that cosines are rounded to: the batch changes the seventh digit."""
_KEPT = 4096


class Meaning:
    """Embedding model that tells how near sentences are to claims."""

    def __init__(self, named: str) -> None:
        """Check a model folder; its weights are read when used.

        Args:
            named: a folder of a sentence-embedding model, or an installed package that ships one.

        Raises:
            JudgeSetupError: it cannot be read, or is of a model for something else.
        """
        self.folder = model_folder(named, key=_KEY)
        kind = architecture(model_settings(self.folder, key=_KEY))
        if not kind.endswith(("Model", "ForMaskedLM")):
            raise JudgeSetupError(
                f"embedding: {self.folder} holds no model of sentence embeddings (its "
                f"architecture: {kind or 'none'}): give an encoder, such as all-MiniLM-L6-v2"
            )
        self._vectors: dict[str, FloatArray] = {}

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
        _ = self._encoder

    @cached_property
    def _encoder(self) -> "Encoder":
        with needing_extra(
            "rubric-judge", "models", by="a claim judge with `embedding:`"
        ):
            from rubric_judge.judges.claims.encoder import Encoder
        return Encoder(self.folder, key=_KEY)

    def nearness(
        self, claims: Sequence[str], question: str, sentences: Sequence[str]
    ) -> list[list[float]]:
        """Return how much of each claim each sentence expresses, in [0, 1].

        Args:
            claims: true statements.
            question: the question.
            sentences: sentences of an answer, which are encoded in one batch.

        Returns:
            One row for each claim.
        """
        vectors = self._encoded([*claims, question, *sentences])
        boundaries = [len(claims), len(claims) + 1]
        claim_vectors, asked, sentence_vectors = np.split(vectors, boundaries)
        cosines = np.round(claim_vectors @ sentence_vectors.T, _DIGITS)
        to_question = np.round(claim_vectors @ asked.T, _DIGITS)
        floor = np.maximum(_FAR, to_question + _GAIN)
        span = np.maximum(_SAME - floor, _LEAST_SPAN)
        near = np.clip((cosines - floor) / span, 0.0, 1.0)
        return cast("list[list[float]]", near.tolist())

    def _encoded(self, texts: Sequence[str]) -> FloatArray:
        cleaned = [plain(text) for text in texts]
        new = [text for text in dict.fromkeys(cleaned) if text not in self._vectors]
        if len(self._vectors) + len(new) > _KEPT:
            self._vectors = {}
            new = list(dict.fromkeys(cleaned))
        if new:
            vectors = self._encoder.sentence_vectors(new)
            self._vectors |= dict(zip(new, vectors, strict=True))
        return np.stack([self._vectors[text] for text in cleaned])
