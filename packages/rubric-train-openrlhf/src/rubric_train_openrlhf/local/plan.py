"""What a run in one process will do and need: the text of `rubric-train plan`.

Neither torch nor a weight is loaded; `full` reads the tokenizer too.
"""

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from rubric_core import read_tasks
from rubric_core.files import read_file
from rubric_judge.page.rendering import text_template
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
from rubric_train_openrlhf.step.probe import judge_lines
from rubric_train_openrlhf.step.tasks import (
    TaskSet,
    heldout_questions,
    missing_lines,
    shared_lines,
)

_TEMPLATE: Final = read_file(Path(__file__).with_name("plan.txt.j2")).decode()
_GIB = 2**30
_PROCESS_BYTES = round(0.57 * _GIB)
"""Measured, on Linux without a GPU: what is there before any weights."""
_PROMPT_TOKENS = 256
"""Of a question with its chat template, where there is no question yet."""
_TOKEN_CHARACTERS = 3
"""Of a token of technical English, as few as a vocabulary of a few thousand has."""
_TEMPLATE_TOKENS = 40
"""What a chat template puts around a question, its usual system message included."""
_SHARING_ROWS = 2
"""Responses of a group in a pass, from which on they share their prompt."""
_ALLOCATED = 1.4
"""What the process holds of a pass, to what is in use: measured 1.2 after two steps, 1.5 after
four."""


Reading = Literal["grouped", "handed", "windowed", "each", "unknown"]
"""How an update reads prompts: see `rubric_train_openrlhf.policy.sharing`."""
_READINGS: Final[Mapping[Reading, str]] = {
    "grouped": "once a pass, in one row with all responses to them",
    "handed": "once a pass, and their keys and values are handed to each response",
    "windowed": "once for each response: rows may be longer than the model's sliding_window",
    "each": "once for each response",
    "unknown": "once a pass where the architecture allows, else once for each response",
}


class Memory(NamedTuple):
    """Bytes that a run needs."""

    parameters: int
    """Their number."""
    held: Mapping[str, int]
    """From start to end, by what for."""
    sampling: int | None = None
    """On top while it samples, as `update` is in an update; None for another kind of model."""
    update: float | None = None
    prompt_tokens: int = 0
    """Longest question that both are for."""


def describe_plan(config: TrainConfig, *, full: bool = False) -> str:
    """Say what a run does in each step, how much memory it needs, and what is not there yet.

    Args:
        config: of the run.
        full: put the resolved configuration before it, and say what the memory is made of; its
            questions are then counted in the model's own tokens.

    Raises:
        TrainConfigError, RubricFileError: tasks or documents that are there cannot be trained on.
    """
    _check_start(config)
    content: dict[str, Any] = {
        "config": config,
        "full": full,
        "resolved": dump_config(config),
        "heldout": heldout_questions(config),
        "admission": admission_lines(config),
        "memory": _memory(config, full=full),
        "prompts": _READINGS[_reading(config, full=full)],
        "missing": (*judge_lines(config), *missing_lines(config)),
        "traps": (*config.traps(), *shared_lines(config)),
    }
    return text_template(_TEMPLATE, gib=_gib, ceil=ceil).render(content).rstrip("\n")


def parameter_count(model: ModelConfig) -> int | None:
    """Number of trained parameters; None where there is no model at the path yet, and no known one.

    Raises:
        PolicyLoadError: its config.json cannot be read.
    """
    if (shape := _shape(model)) is not None:
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
    if config.objective.kl_coef > 0:
        held["reference"] = _number_bytes(config) * count
    if config.precision == "bfloat16":
        held["bfloat16 copies"] = (
            2 * count
        )  # autocast keeps them for the length of a pass
    held["Python and torch"] = _PROCESS_BYTES
    if (shape := _shape(config.model)) is None:
        return Memory(count, held)
    tokens = _prompt_tokens(config, counted=full)
    cache = _cache_bytes(config, shape, tokens)
    update = _update_bytes(config, shape, tokens, _reading(config, full=full))
    return Memory(count, held, cache, update, tokens)


def _shape(model: ModelConfig) -> ModelShape | None:
    if isinstance(model, SmolLM2Model):  # its folder may not be made yet
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
    """Keys and values of the responses that are sampled at once, all at their longest.

    On a CPU the sampler copies float32 weights of a Llama, too, into another layout.
    """
    samples = config.validation.samples if config.data.validation else 0
    rows = max(config.rollout.micro_batch * config.rollout.group_size, samples)
    tokens = rows * (prompt_tokens + config.rollout.max_new_tokens)
    number = _number_bytes(config)
    plain = (
        shape.family == "llama"
        and config.precision == "float32"
        and config.device != "cuda"
    )
    copied = number * shape.parameters if plain else 0
    return tokens * shape.kv_bytes_per_token(number_bytes=number) + copied


def _reading(config: TrainConfig, *, full: bool) -> Reading:
    optim = config.optim
    if (
        not optim.share_prompts
        or min(optim.micro_batch, config.rollout.group_size) < _SHARING_ROWS
    ):
        return "each"
    if (shape := _shape(config.model)) is None:
        return "unknown"
    if config.precision == "float32" and config.device != "cuda":
        longest = _prompt_tokens(config, counted=full) + config.rollout.max_new_tokens
        return (
            "grouped" if shape.window is None or longest <= shape.window else "windowed"
        )
    return "each" if optim.gradient_checkpointing or shape.window else "handed"


def _update_bytes(
    config: TrainConfig, shape: ModelShape, prompt_tokens: int, reading: Reading
) -> float:
    """What a pass with gradients holds, all responses at their longest.

    With B responses of T tokens that share P prompts of S, per layer: 11·h + 4·I numbers of each of
    P·S + B·T tokens (B·S + B·T where each response reads its own prompt), and where a prompt is
    handed on, the (a + 2·k)·d numbers of its keys and values, B·S times. Counted on SmolLM2, the
    tensors that autograd keeps are within 4 % of it.
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
    if optim.gradient_checkpointing:  # of all layers but one their input
        return _ALLOCATED * (
            tokens * (shape.layers * shape.hidden + layer) * number + head_gradient
        )
    handed = rows * prompt_tokens * (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    beside = handed if reading == "handed" else 0
    return _ALLOCATED * (
        shape.layers * (tokens * layer + beside) * number + head_gradient
    )


def _prompt_tokens(config: TrainConfig, *, counted: bool) -> int:
    """The longest prompt to train on; a guess where tasks or tokenizer are not there yet.

    It is worked out from the characters of its question and context, unless `counted` by the
    tokenizer, which takes seconds to load.
    """
    if not config.data.train.is_file():
        return _PROMPT_TOKENS
    views = (task.policy_view() for task in read_tasks(config.data.train))
    if isinstance(config.model, TinyModel) or not counted:
        longest = max((len(view.message) for view in views), default=0)
        return (
            _TEMPLATE_TOKENS + ceil(longest / _TOKEN_CHARACTERS)
            if longest
            else _PROMPT_TOKENS
        )
    from rubric_train_openrlhf.policy import load_codec

    model = config.model
    try:
        codec = load_codec(
            model.folder(), prompt=model.chat_prompt, thoughts=model.told_thoughts
        )
    except PolicyLoadError:
        return _PROMPT_TOKENS
    return max(
        (len(codec.encode_prompt(view).token_ids) for view in views),
        default=_PROMPT_TOKENS,
    )


def _check_start(config: TrainConfig) -> None:
    """Refuse what a run that begins would refuse, as far as it is there."""
    if not config.data.train.is_file():
        return
    tasks = TaskSet(read_tasks(config.data.train))
    model = config.model
    check_answers(config, tasks)
    if isinstance(model, PathModel):
        check_arguments(model.folder(), prompt=model.chat_prompt)
    if isinstance(model, TinyModel) and model.documents.is_file():
        read_corpus(model.documents, doc_hashes=tasks.doc_hashes)
