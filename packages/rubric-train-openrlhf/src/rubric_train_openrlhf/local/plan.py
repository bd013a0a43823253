"""Plan of a run in one process, with its memory: the text of `rubric-train plan`.

Neither torch nor weights are loaded; `full` and self-distillation read the tokenizer too.
"""

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rubric_core import read_tasks
from rubric_core.files import read_file
from rubric_judge.ui.page.rendering import text_template
from rubric_train_openrlhf.config.method import SelfDistillation
from rubric_train_openrlhf.config.sections import (
    ModelConfig,
    PathModel,
    SmolLM2Model,
    TinyModel,
)
from rubric_train_openrlhf.config.train import TrainConfig, dump_config
from rubric_train_openrlhf.errors import PolicyLoadError
from rubric_train_openrlhf.local.inputs import check_answers, read_corpus
from rubric_train_openrlhf.policy.shape import KNOWN_SHAPES, ModelShape, model_shape
from rubric_train_openrlhf.policy_config import check_arguments
from rubric_train_openrlhf.step.admission import admission_lines
from rubric_train_openrlhf.step.audit import audit_lines
from rubric_train_openrlhf.step.probe import judge_lines
from rubric_train_openrlhf.step.tasks import (
    TaskSet,
    heldout_questions,
    missing_lines,
    shared_lines,
)
from rubric_train_openrlhf.tracking import running as tracking

_TEMPLATE = read_file(Path(__file__).with_name("plan.txt.j2")).decode()
_GIB = 2**30
_PROCESS_BYTES = round(0.57 * _GIB)
"""Memory of the process before any weights, measured on Linux without a GPU."""
_PROMPT_TOKENS = 256
"""Tokens assumed for a question with its chat template if there is no question yet."""
_TOKEN_CHARACTERS = 3
"""Characters of a token of technical English with a vocabulary of a few thousand."""
_TEMPLATE_TOKENS = 40
"""Tokens that a chat template adds to a question, including its usual system message."""
_SHARING_ROWS = 2
"""Number of a group's responses in a pass from which on they share their prompt."""
_ALLOCATED = 1.4
"""Ratio of the memory allocated for a pass to that in use: measured 1.2 after two steps, 1.5
after four."""


Reading = Literal["grouped", "handed", "windowed", "each", "unknown"]
"""How an update reads prompts: see `rubric_train_openrlhf.policy.sharing`."""
_READINGS: Mapping[Reading, str] = {
    "grouped": "once a pass, in one row with all responses to them",
    "handed": "once a pass, and their keys and values are handed to each response",
    "windowed": "once for each response: rows may be longer than the model's sliding_window",
    "each": "once for each response",
    "unknown": "once a pass where the architecture allows, else once for each response",
}


class Memory(NamedTuple):
    """Bytes that a run needs."""

    parameters: int
    """Number of parameters."""
    held: Mapping[str, int]
    """Bytes held from start to end, by purpose."""
    sampling: int | None = None
    """Further bytes during sampling, as `update` during an update; None for an unknown model."""
    update: float | None = None
    prompt_tokens: int = 0
    """Tokens of the longest question, which both are computed for."""


def describe_plan(config: TrainConfig, *, full: bool = False) -> str:
    """Describe the steps of a run, the memory it needs, and files that do not exist yet.

    Args:
        config: configuration of the run.
        full: also show the resolved configuration and the parts of the memory; questions are then
            counted in the model's own tokens.

    Raises:
        TrainConfigError, RubricFileError: existing tasks or documents cannot be trained on.
        PolicyLoadError: the chat template refuses what a teacher is shown.
    """
    _check_start(config, counted=full)
    content: dict[str, Any] = {
        "config": config,
        "full": full,
        "resolved": dump_config(config),
        "heldout": heldout_questions(config),
        "admission": (*admission_lines(config), *audit_lines(config)),
        "memory": _memory(config, full=full),
        "prompts": _READINGS[_reading(config, full=full)],
        "missing": (
            *judge_lines(config),
            *missing_lines(config),
            *tracking.missing_lines(config),
        ),
        "traps": (*config.traps(), *shared_lines(config)),
    }
    return text_template(_TEMPLATE, gib=_gib, ceil=ceil).render(content).rstrip("\n")


def parameter_count(model: ModelConfig) -> int | None:
    """Return the number of trained parameters; None if there is no model yet, and no known one.

    Raises:
        PolicyLoadError: the model's config.json cannot be read.
    """
    shape = _shape(model)
    if shape is not None:
        return shape.parameters
    folder = model.folder() if isinstance(model, PathModel) else None
    if folder is None or not (folder / "config.json").is_file():
        return None
    from rubric_train_openrlhf.policy import load  # loads torch: of this family alone

    return load.parameter_count(folder)


def _gib(size: float) -> str:
    return f"{size / _GIB:.2f}"


def _memory(config: TrainConfig, *, full: bool) -> Memory | None:
    count = parameter_count(config.model)
    if count is None:
        return None
    # float32 weights and gradients, and AdamW's two moments.
    held = {"weights": 4 * count, "gradients": 4 * count, "AdamW": 8 * count}
    if isinstance(config.method, SelfDistillation):
        if config.method.teacher == "start":
            held["teacher"] = _number_bytes(config) * count
    elif config.objective.kl_coef > 0:
        held["reference"] = _number_bytes(config) * count
    if config.precision == "bfloat16":
        # Autocast keeps them during a pass.
        held["bfloat16 copies"] = 2 * count
    held["Python and torch"] = _PROCESS_BYTES
    shape = _shape(config.model)
    if shape is None:
        return Memory(count, held)
    tokens = _prompt_tokens(config, counted=full)
    cache = _cache_bytes(config, shape, tokens)
    update = _update_bytes(config, shape, tokens, _reading(config, full=full))
    return Memory(count, held, cache, update, tokens)


def _shape(model: ModelConfig) -> ModelShape | None:
    if isinstance(model, SmolLM2Model):  # its folder may not exist yet
        return KNOWN_SHAPES["SmolLM2-135M"]
    if isinstance(model, PathModel):
        return model_shape(model.folder())
    tiny = model.architecture
    return ModelShape(
        layers=tiny.layers,
        hidden=tiny.hidden_size,
        intermediate=tiny.intermediate_size,
        heads=tiny.heads,
        kv_heads=tiny.kv_heads,
        vocabulary=tiny.vocab_size,
        tied=True,
    )


def _number_bytes(config: TrainConfig) -> int:
    return 2 if config.precision == "bfloat16" else 4


def _cache_bytes(config: TrainConfig, shape: ModelShape, prompt_tokens: int) -> int:
    """Return bytes of keys and values of concurrently sampled responses, all at full length.

    On a CPU the sampler also copies float32 weights of a Llama into another layout.
    """
    samples = config.validation.samples if config.data.validation else 0
    rows = max(config.rollout.micro_batch * config.rollout.group_size, samples)
    tokens = rows * (prompt_tokens + config.rollout.max_new_tokens)
    number = _number_bytes(config)
    is_copied = (
        shape.family == "llama"
        and config.precision == "float32"
        and config.device != "cuda"
    )
    copied = number * shape.parameters if is_copied else 0
    return tokens * shape.kv_bytes_per_token(number_bytes=number) + copied


def _reading(config: TrainConfig, *, full: bool) -> Reading:
    optim = config.optim
    rows = min(optim.micro_batch, config.rollout.group_size)
    if not optim.share_prompts or rows < _SHARING_ROWS:
        return "each"
    shape = _shape(config.model)
    if shape is None:
        return "unknown"
    if config.precision == "float32" and config.device != "cuda":
        longest = _prompt_tokens(config, counted=full) + config.rollout.max_new_tokens
        is_within = shape.window is None or longest <= shape.window
        return "grouped" if is_within else "windowed"
    return "each" if optim.gradient_checkpointing or shape.window else "handed"


def _update_bytes(
    config: TrainConfig, shape: ModelShape, prompt_tokens: int, reading: Reading
) -> float:
    """Return the bytes that a pass with gradients holds, all responses at full length.

    With B responses of T tokens that share P prompts of S, per layer: 11·h + 4·I numbers for each
    of P·S + B·T tokens (B·S + B·T if each response reads its own prompt), and if a prompt is
    handed on, the (a + 2·k)·d numbers of its keys and values, B·S times. Counted on SmolLM2, the
    tensors that autograd keeps are within 4 % of this.
    """
    optim = config.optim
    rollout = config.rollout
    number = _number_bytes(config)
    rows = optim.micro_batch
    answers = optim.micro_batch * rollout.max_new_tokens
    head_gradient = 4 * shape.vocabulary * shape.hidden
    layer = 11 * shape.hidden + 4 * shape.intermediate
    is_shared = reading in {"grouped", "handed"}
    prompts = ceil(rows / rollout.group_size) if is_shared else rows
    tokens = prompts * prompt_tokens + answers
    if optim.gradient_checkpointing:  # only the input of all layers but one
        numbers = tokens * (shape.layers * shape.hidden + layer)
        return _ALLOCATED * (numbers * number + head_gradient)
    handed = 0
    if reading == "handed":
        heads = shape.heads + 2 * shape.kv_heads
        handed = rows * prompt_tokens * heads * shape.head_dim
    numbers = shape.layers * (tokens * layer + handed)
    return _ALLOCATED * (numbers * number + head_gradient)


def _prompt_tokens(config: TrainConfig, *, counted: bool) -> int:
    """Return the tokens of the longest training prompt; a guess without tasks or tokenizer.

    They are estimated from the characters of question and context, unless `counted` by the
    tokenizer, which takes seconds to load.
    """
    if not config.data.train.is_file():
        return _PROMPT_TOKENS
    views = (task.policy_view() for task in read_tasks(config.data.train))
    if isinstance(config.model, TinyModel) or not counted:
        longest = max((len(view.message) for view in views), default=0)
        if not longest:
            return _PROMPT_TOKENS
        return _TEMPLATE_TOKENS + ceil(longest / _TOKEN_CHARACTERS)
    from rubric_train_openrlhf.policy import load_codec

    model = config.model
    try:
        codec = load_codec(
            model.folder(), prompt=model.chat_prompt, thoughts=model.told_thoughts
        )
    except PolicyLoadError:
        return _PROMPT_TOKENS
    lengths = (len(codec.encode_prompt(view).token_ids) for view in views)
    return max(lengths, default=_PROMPT_TOKENS)


def _check_start(config: TrainConfig, *, counted: bool) -> None:
    """Check the existing files as a new run would; the lengths of prompts where they are counted.

    A teacher's prompts are counted always: they hold passages, which are often long.
    """
    if not config.data.train.is_file():
        return
    tasks = TaskSet(read_tasks(config.data.train))
    model = config.model
    check_answers(config, tasks)
    if isinstance(model, PathModel):
        check_arguments(model.folder(), prompt=model.chat_prompt)
    if isinstance(model, TinyModel) and model.documents.is_file():
        read_corpus(model.documents, doc_hashes=tasks.doc_hashes)
    if counted or isinstance(config.method, SelfDistillation):
        _check_lengths(config, tasks)


def _check_lengths(config: TrainConfig, tasks: TaskSet) -> None:
    """Refuse prompts that a run refuses, where there is a tokenizer to count them with."""
    model = config.model
    if isinstance(model, TinyModel):  # its tokenizer is built when it runs
        return
    from rubric_train_openrlhf.local import lengths
    from rubric_train_openrlhf.policy import load

    try:
        codec = load.load_codec(
            model.folder(), prompt=model.chat_prompt, thoughts=model.told_thoughts
        )
        positions = lengths.most_positions(load.read_config(model.folder()))
    except PolicyLoadError:
        return
    path = config.data.validation
    heldout = None
    if path is not None and path.is_file():
        heldout = TaskSet(read_tasks(path)).first(config.validation.questions)
    lengths.refuse_long_prompts(
        codec,
        positions,
        tasks={"data.train": tasks, "data.validation": heldout},
        config=config,
    )
