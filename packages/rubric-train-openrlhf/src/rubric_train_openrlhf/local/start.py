"""Plan and start a run of the local backend, before torch is loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from math import ceil
from typing import TYPE_CHECKING

from rubric_core import read_tasks
from rubric_core.locks import folder_lock
from rubric_judge.console.progress import Progress
from rubric_train_openrlhf.config.loading import dump_config
from rubric_train_openrlhf.config.sections import ModelConfig, TinyModel
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.errors import PolicyLoadError
from rubric_train_openrlhf.local.inputs import read_inputs
from rubric_train_openrlhf.policy.shape import ModelShape, model_shape
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import Watch, live_summary
from rubric_train_openrlhf.run.records import HeldoutRow, MetricsRow, RunSummary
from rubric_train_openrlhf.step.admission import admission_lines
from rubric_train_openrlhf.step.tasks import heldout_questions

if TYPE_CHECKING:
    from rubric_core import Judge
    from rubric_train_openrlhf.policy import SupervisedStep


def run_grpo(  # noqa: PLR0913  # what is called back are three things
    config: TrainConfig,
    *,
    resume: bool = False,
    judge: Judge | None = None,
    on_step: Callable[[MetricsRow], None] | None = None,
    on_heldout: Callable[[HeldoutRow], None] | None = None,
    on_supervised: Callable[[str, SupervisedStep], None] | None = None,
    progress: Progress | None = None,
) -> RunSummary:
    """Train a policy on rubric rewards and write its run folder.

    Args:
        config: the whole run; all randomness follows from its seed.
        resume: go on from the last checkpoint in `config.out`; starts anew where there is none.
        judge: used in place of the one that `config.judge.spec` describes.
        on_step: called after every step is on disk.
        on_heldout: called after every held-out pass is on disk.
        on_supervised: called with "pretrain" or "sft" after every step that comes before step 1.
        progress: told of every phase; nothing is shown if left out.

    Returns:
        How the run ended; the same as summary.json.

    Raises:
        TrainConfigError: a task file is missing or empty, or a GPU is asked for and absent.
        LeakError: a question gives its passage or rubric away.
        RubricFileError: a line of a task file is no task.
        PolicyLoadError: there is no model at the path.
        ResumeError: `config.out` holds a run, and `resume` is off or the run is another one.
        JudgeAbortError: too many judgements of a step failed.
        UnavailableRewardError: one did, and `config.judge.on_unavailable` is "raise".
        NoInformativePromptError: dynamic sampling found too few groups with a spread.
        NonFiniteUpdateError: the loss or its gradient is not a number.
        DiskWriteError: the run folder could not be written.

    Source: paper, §A, Algorithm 1.
    """
    folder = RunFolder(config.out)
    with contextlib.ExitStack() as held:
        if progress is None:
            progress = held.enter_context(Progress.silent())
        held.enter_context(folder_lock(folder.path))
        summary_file = held.enter_context(
            live_summary(folder, total_steps=config.steps, resume=resume, progress=progress)
        )
        with progress.phase("reading tasks"):
            inputs = read_inputs(config, resume=resume, judge=judge)
        with progress.phase("loading torch"):
            # Seconds, and minutes from a cold disk: summary.json and the first line come before.
            from rubric_train_openrlhf.local.assembly import assembled
            from rubric_train_openrlhf.local.loop import train

        watch = Watch(summary_file, progress, on_step, on_heldout, on_supervised)
        with assembled(config, inputs, judge=judge, watch=watch) as run:
            train(run)
    return folder.read_summary()


_GIB = 2**30
_PROCESS_BYTES = round(0.57 * _GIB)
"""Measured, on Linux without a GPU: what is there before any weights."""
_PROMPT_TOKENS = 256
"""Of a question with its chat template, as a guess."""
_ALLOCATED = 1.4
"""What the process holds of a pass, to what is in use: measured 1.2 after two steps, 1.5 after
four."""


def describe_plan(config: TrainConfig) -> str:
    """Lay out the resolved configuration, the work of a step, and the memory of the models."""
    return "\n".join(
        [
            dump_config(config),
            _steps_text(config),
            *_heldout_lines(config),
            *admission_lines(config),
            _memory_line(config),
            *_missing_lines(config),
        ]
    )


def parameter_count(model: ModelConfig) -> int | None:
    """Number of trained parameters; None where there is no model at the path yet."""
    from rubric_train_openrlhf.policy import load  # loads torch

    if isinstance(model, TinyModel):
        return load.build_tiny_llama(model.architecture, seed=0).num_parameters()
    folder = model.folder()
    return load.parameter_count(folder) if (folder / "config.json").is_file() else None


def _steps_text(config: TrainConfig) -> str:
    rollout, optim = config.rollout, config.optim
    share = config.batch_size // optim.updates_per_rollout
    return (
        f"each of {config.steps} steps:\n"
        f"  sample  {rollout.prompts} prompts × {rollout.group_size} responses = "
        f"{config.batch_size}, at most {config.batch_size * rollout.max_new_tokens:,} tokens, "
        f"{rollout.micro_batch} prompts at a time\n"
        f"  judge   {config.batch_size} responses with {config.judge.spec.type!r}, "
        f"{config.judge.workers} workers × {config.judge.micro_batch}\n"
        f"  update  {optim.updates_per_rollout} × {share} responses, each in "
        f"{ceil(share / optim.micro_batch)} passes of at most {optim.micro_batch}\n"
        f"learning rate {optim.learning_rate:g} after {optim.warmup_steps} warm-up steps; "
        f"{config.steps * optim.updates_per_rollout} optimiser updates in all"
    )


def _heldout_lines(config: TrainConfig) -> Iterator[str]:
    if config.data.validation is None:
        return
    n, samples = heldout_questions(config), config.validation.samples
    answers = "?" if n is None else f"{n * samples:,}"
    yield (
        f"{1 + ceil(config.steps / config.validation.every)} held-out passes, the first before "
        f"step 1: {n or '?'} questions × {samples} responses = {answers}, each of at most "
        f"{config.rollout.max_new_tokens} tokens"
    )


def _memory_line(config: TrainConfig) -> str:
    count = parameter_count(config.model)
    if count is None:
        return "memory: unknown, there is no model at model.path yet"
    # float32 weights and gradients, and AdamW's two moments.
    parts = {"weights": 4 * count, "gradients": 4 * count, "AdamW": 8 * count}
    if config.objective.kl_coef > 0:
        parts["reference"] = _number_bytes(config) * count
    parts["Python and torch"] = _PROCESS_BYTES
    shown = ", ".join(f"{name} {size / _GIB:.2f}" for name, size in parts.items())
    begins, held = f"memory: {count:,} parameters; ", sum(parts.values())
    if (shape := _shape(config.model)) is None:
        return (
            f"{begins}{held / _GIB:.2f} GiB ({shown}), and beside it the cache of the prompts "
            "sampled at once, which rollout.micro_batch bounds, or the activations, which "
            "optim.micro_batch and optim.gradient_checkpointing bound: unknown for this kind of "
            "model"
        )
    tokens = _prompt_tokens(config)
    cache, update = _cache_bytes(config, shape, tokens), _update_bytes(config, shape, tokens)
    return (
        f"{begins}about {(held + max(cache, update)) / _GIB:.2f} GiB at the most ({shown}; and "
        f"{cache / _GIB:.2f} of keys, values and copied weights while it samples, which "
        f"rollout.micro_batch bounds, or {update / _GIB:.2f} in an update, which "
        f"optim.micro_batch and optim.gradient_checkpointing bound), for questions of {tokens} tokens"
    )


def _shape(model: ModelConfig) -> ModelShape | None:
    if not isinstance(model, TinyModel):
        return model_shape(model.folder())
    tiny = model.architecture
    return ModelShape(
        layers=tiny.layers,
        hidden=tiny.hidden_size,
        intermediate=tiny.intermediate_size,
        heads=tiny.heads,
        kv_heads=tiny.kv_heads,
        head_dim=tiny.hidden_size // tiny.heads,
        vocabulary=tiny.vocab_size,
        tied=True,
    )


def _number_bytes(config: TrainConfig) -> int:
    return 2 if config.precision == "bfloat16" else 4


def _cache_bytes(config: TrainConfig, shape: ModelShape, prompt_tokens: int) -> int:
    """Keys and values of the responses that are sampled at once, all at their longest.

    On a CPU the sampler copies float32 weights of a Llama, too, into another layout.
    """
    samples = config.validation.samples if config.data.validation else 0
    rows = max(config.rollout.micro_batch * config.rollout.group_size, samples)
    tokens = rows * (prompt_tokens + config.rollout.max_new_tokens)
    number = _number_bytes(config)
    plain = shape.family == "llama" and config.precision == "float32" and config.device != "cuda"
    copied = number * shape.parameters if plain else 0
    return tokens * shape.kv_bytes_per_token(number_bytes=number) + copied


def _update_bytes(config: TrainConfig, shape: ModelShape, prompt_tokens: int) -> float:
    """What a pass with gradients holds, all responses at their longest.

    With B responses of T tokens that share P prompts of S, per layer: 11·h + 4·I numbers of each of
    P·S + B·T tokens, and the (a + 2·k)·d numbers of a prompt's keys and values, B·S times. Counted
    on SmolLM2, the tensors that autograd keeps are within 4 % of it.
    """
    optim, rollout, number = config.optim, config.rollout, _number_bytes(config)
    rows, answers = optim.micro_batch, optim.micro_batch * rollout.max_new_tokens
    head_gradient = 4 * shape.vocabulary * shape.hidden
    layer = 11 * shape.hidden + 4 * shape.intermediate
    if optim.gradient_checkpointing:  # of the others one input; each response reads its prompt
        tokens = rows * prompt_tokens + answers
        return _ALLOCATED * (
            tokens * (shape.layers * shape.hidden + layer) * number + head_gradient
        )
    tokens = ceil(rows / rollout.group_size) * prompt_tokens + answers
    handed = rows * prompt_tokens * (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    return _ALLOCATED * (shape.layers * (tokens * layer + handed) * number + head_gradient)


def _prompt_tokens(config: TrainConfig) -> int:
    """The longest prompt to train on; a guess where tasks or tokenizer are not there yet."""
    if isinstance(config.model, TinyModel) or not config.data.train.is_file():
        return _PROMPT_TOKENS
    from rubric_train_openrlhf.policy import load_codec

    try:
        codec = load_codec(config.model.folder())
    except PolicyLoadError:
        return _PROMPT_TOKENS
    views = (task.policy_view() for task in read_tasks(config.data.train))
    return max((len(codec.encode_prompt(view).token_ids) for view in views), default=_PROMPT_TOKENS)


def _missing_lines(config: TrainConfig) -> Iterator[str]:
    """Name the files that a run would end for; they may be made after the plan is read."""
    files = {"data.train": config.data.train, "data.validation": config.data.validation}
    files["judge.calibration"] = config.judge.calibration
    if isinstance(config.model, TinyModel):
        files["model.documents"] = config.model.documents
    for key, path in files.items():
        if path is not None and not path.is_file():
            yield f"not there yet: {path} ({key})"
