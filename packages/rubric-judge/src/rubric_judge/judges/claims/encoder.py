"""Models of local folders: the only module of the judge that imports torch and transformers.

No code of a folder is run, and the network is not used.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging as transformers_logging

from rubric_core.arrays import FloatArray
from rubric_core.errors import shortened
from rubric_judge.errors import JudgeSetupError
from rubric_judge.judges.claims.folders import model_settings

_BATCH = 32
_MOST_TOKENS = 256
"""Few sentences or pairs of sentences are longer; longer ones are cut."""
_LOCAL = {"local_files_only": True, "trust_remote_code": False}


@contextmanager
def _silently() -> Generator[None]:
    """Keep progress bars and reports of weights off the terminal; missing weights are an error."""
    bars_were_enabled = transformers_logging.is_progress_bar_enabled()
    level = transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars_were_enabled:
            transformers_logging.enable_progress_bar()


def _read(kind: Any, folder: Path, *, key: str) -> tuple[Any, Any]:
    """Return a folder's tokenizer and model."""
    reader: Any = AutoTokenizer  # transformers does not annotate its return value
    try:
        with _silently():
            tokenizer: Any = reader.from_pretrained(folder, **_LOCAL)
            model, loading_info = kind.from_pretrained(
                folder,
                use_safetensors=True,
                dtype=torch.float32,
                output_loading_info=True,
                **_LOCAL,
            )
    except Exception as error:
        first_line = shortened(str(error).partition("\n")[0], 200)
        problem = f"{type(error).__name__}: {first_line}"
        raise JudgeSetupError(
            f"{key}: the model in {folder} cannot be read ({problem}): save or download it anew"
        ) from error
    missing = sorted(
        name for name in loading_info["missing_keys"] if "pooler" not in name
    )
    if missing:
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
        pooling = folder / "1_Pooling"
        if pooling.is_dir():
            settings = model_settings(pooling, key=key)
            self._takes_first = settings.get("pooling_mode_cls_token") is True

    def sentence_vectors(self, texts: Sequence[str]) -> FloatArray:
        """Return a vector of length one for each text; texts of similar length share a batch."""

        def by_length(place: int) -> tuple[int, str]:
            return len(texts[place]), texts[place]

        order = sorted(range(len(texts)), key=by_length)
        vectors: dict[int, FloatArray] = {}
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
            normalized = torch.nn.functional.normalize(pooled, dim=-1)
            rows = normalized.numpy()
            vectors |= dict(zip(places, rows, strict=True))
        in_order = [vectors[place] for place in range(len(texts))]
        return np.stack(in_order).astype(np.float64)


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
        rows: list[FloatArray] = []
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
            probabilities = torch.softmax(logits, dim=-1).numpy()
            rows.append(probabilities.astype(np.float64))
        return np.concatenate(rows)
