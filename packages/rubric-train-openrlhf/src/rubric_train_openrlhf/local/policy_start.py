"""The policy before step 1: read from a folder, or built from nothing; warm-started if asked."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import structlog
import torch

from rubric_train_openrlhf.config import PathModel, TinyModel
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.policy import build_tiny_policy, load_policy, pretrain, sft
from rubric_train_openrlhf.randomness import derived_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.local.inputs import RunInputs
    from rubric_train_openrlhf.local.watch import Watch
    from rubric_train_openrlhf.policy import Policy, SupervisedStep

_log = structlog.get_logger()


def start_policy(
    config: TrainConfig,
    *,
    inputs: RunInputs,
    device: torch.device,
    watch: Watch,
) -> Policy:
    """Make the policy that step 1 starts from; the reference model is a copy of it.

    Args:
        config: of the run.
        inputs: the reference answers of the training tasks are what the warm start learns, and
            the documents what a policy built from nothing is pre-trained on.
        device: where the model goes.
        watch: told of every phase, and of the steps of "pretrain" and "sft".

    Returns:
        The policy, in float32.

    Raises:
        PolicyLoadError: there is no model at the path.
    """
    match config.model:
        case PathModel(path=path):
            with watch.progress.phase("loading the policy"):
                policy = load_policy(path, device=device)
        case TinyModel() as model:
            policy = _tiny_policy(model, seed=config.seed, inputs=inputs, watch=watch)
            torch.nn.Module.to(policy.model, device)
    if config.sft is not None:
        examples = inputs.book.reference_answers()
        seed = derived_seed(config.seed, step=0, purpose="sft")
        with _told(watch, "sft", title="warm start", steps=config.sft.steps) as on_step:
            report = sft(policy, examples, config.sft, seed=seed, on_step=on_step)
        _log.info("train.sft.finished", **report._asdict())
    return policy


def pick_device(name: str) -> torch.device:
    """Resolve `auto`.

    Raises:
        TrainConfigError: a GPU is asked for and there is none.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise TrainConfigError(
            "device='cuda', but torch sees no GPU; use device='auto' or 'cpu'", location="device"
        )
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _tiny_policy(model: TinyModel, *, seed: int, inputs: RunInputs, watch: Watch) -> Policy:
    texts = inputs.documents
    with watch.progress.phase("building the tokenizer"):
        answers = inputs.book.reference_answers()
        pairs = [f"{example.question}\n{example.answer}" for example in answers]
        policy = build_tiny_policy([*texts, *pairs], model.architecture, seed=seed)
    with _told(watch, "pretrain", title="pre-training", steps=model.pretrain.steps) as on_step:
        loss = pretrain(
            policy,
            texts,
            model.pretrain,
            seed=derived_seed(seed, step=0, purpose="pretrain"),
            progress=on_step,
        )
    _log.info("train.pretrain.finished", loss=loss, steps=model.pretrain.steps)
    return policy


@contextlib.contextmanager
def _told(
    watch: Watch, name: str, *, title: str, steps: int
) -> Generator[Callable[[SupervisedStep], None]]:
    with watch.progress.phase(title, total=steps, unit="steps") as phase:
        yield partial(watch.supervised, name, phase=phase)
