"""CPU of an encoder of all-MiniLM-L6-v2's size on an answer, over the judge of claims' on it.

The judge reads an answer of about 100 words against a passage and six claims, both of numpy's
docstrings. The peer is what every judge by embeddings does at least: the sentences of the answer go
through an encoder of six layers and 384 dimensions once, in one batch, on one thread. Its weights
are random, for time does not depend on them. Both take turns, on the same answers, four of each
rubric; the judge with `embedding:` is set beside the encoder alone as well.

    uv run python benchmarks/judge_claims.py [--quick] [--json PATH]
"""

import argparse
import inspect
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from record import finish
from rich.console import Console
from rich.table import Table
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizerFast,  # pyright: ignore[reportAttributeAccessIssue]  # loaded lazily
)

from rubric_core import Criterion, Grounding, JudgeView, Rubric, Task
from rubric_judge import ClaimConfig, ClaimJudge
from rubric_judge.judges.claims.encoder import Encoder
from rubric_judge.judges.claims.reading import sentences

CLAIM = "without a model, the judge of claims takes a fifth of the CPU of encoding the answer"
TARGET = 5.0
MOST_BESIDE_ENCODING = 2.0
"""CPU of the judge with an embedding model, over that of encoding the answer's sentences alone."""
CLAIMS = 6
ANSWERS = 4
ANSWER_WORDS = 100
SENTENCE_CHARS = 40
OWN = 0.5
"""Share of the sentences that are of the passage."""
DIMENSIONS, LAYERS, HEADS, VOCABULARY = 384, 6, 12, 30_522


def tasks(count: int) -> list[Task]:
    """Return tasks made of docstrings."""
    found: list[Task] = []
    for name in dir(np):
        text = inspect.getdoc(getattr(np, name)) or ""
        prose = [
            one for one in sentences(text) if re.match(r"[A-Z][^>|=]{40,200}\.$", one)
        ]
        if callable(getattr(np, name)) and len(prose) >= 2 * CLAIMS:
            criteria = tuple(
                Criterion(id=f"c{n}", weight=1, description=f"Says that {one[0].lower()}{one[1:]}")
                for n, one in enumerate(prose[:CLAIMS])
            )  # fmt: skip
            found.append(
                Task(
                    question=f"What does `{name}` do?",
                    grounding=Grounding(text[:4000]),
                    rubric=Rubric(criteria=criteria),
                )
            )
    return list(islice(found, count))


def views(made: list[Task], seed: int) -> list[JudgeView]:
    """Return answers: sentences of the passage and of others, in another order each time."""
    rng = np.random.default_rng(seed)
    pool = [
        one
        for task in made
        for one in sentences(task.grounding.reveal())
        if len(one) > SENTENCE_CHARS
    ]
    found: list[JudgeView] = []
    for task in made:
        own = [
            one
            for one in sentences(task.grounding.reveal())
            if len(one) > SENTENCE_CHARS
        ]
        for _ in range(ANSWERS):
            answer = ""
            while len(answer.split()) < ANSWER_WORDS:
                sentence = str(rng.choice(own if rng.random() < OWN else pool)).rstrip(
                    "."
                )
                # No sentence is encoded twice: answers of one group seldom share any.
                name = "".join(rng.choice(list("bdfgklmnprstvz"), 8))
                answer += f" {sentence}, as {name} shows."
            found.append(task.judge_view(answer.strip()))
    return found


def write_model(folder: Path) -> None:
    """Write an encoder of random weights, and a tokenizer that knows the docstrings' words."""
    texts = (str(inspect.getdoc(getattr(np, name))).lower() for name in dir(np))
    words = sorted({word for text in texts for word in re.findall(r"[a-z]+", text)})
    kept = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words, ".", ","]
    (folder / "vocab.txt").write_text("\n".join(kept), encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=DIMENSIONS,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * DIMENSIONS,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)


def cpu_ms(work: Callable[[JudgeView], object], answers: list[JudgeView]) -> float:
    """Return the CPU of a piece of work, in milliseconds an answer."""
    begun = time.process_time()
    for view in answers:
        work(view)
    return (time.process_time() - begun) / len(answers) * 1e3


def main() -> None:
    """Measure, print, and end with 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    made = tasks(3 if options.quick else 20)
    rounds = 1 if options.quick else 5
    rows: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder)
        encoder = Encoder(folder, key="embedding")
        plain, near = ClaimJudge(), ClaimJudge(ClaimConfig(embedding=str(folder)))
        for seed in range(rounds + 1):
            answers = views(made, seed)
            rows.append(
                (
                    cpu_ms(plain.judge_now, answers),
                    cpu_ms(
                        lambda view: encoder.sentence_vectors(sentences(view.response)),
                        answers,
                    ),
                    cpu_ms(near.judge_now, answers),
                )
            )
    # The first round reads tables, passages and claims, as the first answers of a run do.
    judged, encoded, with_model = map(statistics.median, zip(*rows[1:], strict=True))
    ratio, beside = encoded / judged, with_model / encoded
    table = Table("", "CPU, ms an answer")
    for what, ms in (
        ("the judge of claims, no model", judged),
        ("an encoder alone", encoded),
        ("the judge with an encoder", with_model),
    ):
        table.add_row(what, f"{ms:.1f}")
    Console().print(table)
    passed = ratio >= TARGET and beside <= MOST_BESIDE_ENCODING
    finish(
        {
            "claim": CLAIM,
            "value": ratio,
            "target": TARGET,
            "direction": "at least",
            "passed": passed,
            "details": {
                "beside_encoding": beside,
                "cpu_ms": {
                    "judge": judged,
                    "encoder": encoded,
                    "with_encoder": with_model,
                },
            },
        },
        options.json,
    )


if __name__ == "__main__":
    main()
