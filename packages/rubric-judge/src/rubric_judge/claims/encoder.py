"""The one place of the judge that imports torch and transformers: models of local folders.

No code of a folder is run, and no network is asked.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging as transformers_logging

from rubric_core.arrays import FloatArray
from rubric_judge.claims.folders import model_settings
from rubric_judge.errors import JudgeSetupError

_BATCH: Final = 32
_MOST_TOKENS: Final = 256
"""A sentence, or a pair of them, is seldom longer; the rest of a longer one is not read."""
_LOCAL: Final = {"local_files_only": True, "trust_remote_code": False}


@contextmanager
def _silently() -> Generator[None]:
    """Keep progress bars and reports of weights off the terminal; what is missing is an error."""
    shown = transformers_logging.is_progress_bar_enabled()
    level = transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if shown:
            transformers_logging.enable_progress_bar()


def _read(kind: Any, folder: Path, *, key: str) -> tuple[Any, Any]:
    """Return a folder's tokenizer and model."""
    reader: Any = AutoTokenizer  # transformers leaves what it returns without a type
    try:
        with _silently():
            tokenizer: Any = reader.from_pretrained(folder, **_LOCAL)
            model, read = kind.from_pretrained(
                folder,
                use_safetensors=True,
                dtype=torch.float32,
                output_loading_info=True,
                **_LOCAL,
            )
    except Exception as error:
        problem = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
        raise JudgeSetupError(
            f"{key}: the model in {folder} cannot be read ({problem}): save or download it anew"
        ) from error
    if missing := sorted(name for name in read["missing_keys"] if "pooler" not in name):
        problem = f"its weights lack {missing[0]!r} and {len(missing) - 1} more"
        raise JudgeSetupError(
            f"{key}: the model in {folder} cannot be read ({problem}): save or download it anew"
        )
    return tokenizer, model.eval()


class Encoder:
    """A model of sentence embeddings."""

    def __init__(self, folder: Path, *, key: str) -> None:
        """Read a folder.

        Raises:
            JudgeSetupError: it cannot be read.
        """
        self._tokenizer, self._model = _read(AutoModel, folder, key=key)
        self._takes_first = False
        if (pooling := folder / "1_Pooling").is_dir():
            self._takes_first = (
                model_settings(pooling, key=key).get("pooling_mode_cls_token") is True
            )

    def sentence_vectors(self, texts: Sequence[str]) -> FloatArray:
        """Return a vector of length one for each text; those of like length share a batch."""
        order = sorted(
            range(len(texts)), key=lambda place: (len(texts[place]), texts[place])
        )
        found: dict[int, FloatArray] = {}
        for start in range(0, len(order), _BATCH):
            places = order[start : start + _BATCH]
            batch = self._tokenizer(
                [texts[place] for place in places],
                padding=True,
                truncation=True,
                max_length=_MOST_TOKENS,
                return_tensors="pt",
            )
            with torch.inference_mode():
                states = self._model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1)
            pooled = (
                states[:, 0]
                if self._takes_first
                else (states * mask).sum(1) / mask.sum(1)
            )
            rows = torch.nn.functional.normalize(pooled, dim=-1).numpy()
            found |= dict(zip(places, rows, strict=True))
        return np.stack([found[place] for place in range(len(texts))]).astype(
            np.float64
        )


class PairReader:
    """A model that gives a pair of texts a label."""

    def __init__(self, folder: Path, *, key: str) -> None:
        """Read a folder.

        Raises:
            JudgeSetupError: it cannot be read.
        """
        self._tokenizer, self._model = _read(
            AutoModelForSequenceClassification, folder, key=key
        )

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the probability of each label for each pair of premise and claim.

        Returns:
            Shape [pairs, labels].
        """
        found: list[FloatArray] = []
        for start in range(0, len(pairs), _BATCH):
            premises, claims = zip(*pairs[start : start + _BATCH], strict=True)
            batch = self._tokenizer(
                list(premises),
                list(claims),
                padding=True,
                truncation="only_first",
                max_length=_MOST_TOKENS,
                return_tensors="pt",
            )
            with torch.inference_mode():
                logits = self._model(**batch).logits
            found.append(torch.softmax(logits, dim=-1).numpy().astype(np.float64))
        return np.concatenate(found)
