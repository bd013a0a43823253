"""Our commands against OpenRLHF's own parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rubric_train_openrlhf.cluster.command.flags import (
    NOT_PASSED_ON,
    command_words,
    grpo_flags,
)
from rubric_train_openrlhf.cluster.command.refusals import (
    check_command,
    openrlhf_installed,
)
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import SimpleNamespace

    from rubric_train_openrlhf.config.train import TrainConfig

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.skipif(not openrlhf_installed(), reason="OpenRLHF is not installed"),
]

VARIANTS: dict[str, dict[str, Any]] = {
    "main run": {},
    "no reference": {"objective": {"kl_coef": 0.0}},
    "gspo, dual clip": {
        "objective": {"ratio": "sequence", "aggregation": "sequence", "dual_clip": 3.0}
    },
    "tis": {"objective": {"importance": {"type": "tis"}}},
    "icepop": {"objective": {"importance": {"type": "icepop"}}},
    "seq-mask-tis": {"objective": {"importance": {"type": "seq_mask_tis"}}},
    "penalties, dynamic sampling": {
        "shaping": {"length_penalty": {"buffer_tokens": 64}, "alpha_stop": 0.5},
        "dynamic_sampling": {},
    },
    "engines apart": {
        "cluster": {"colocation": "models", "deepspeed": {"packing": True}}
    },
    "cpu": {"cluster": {"device": "cpu"}, "precision": "float32"},
    "no validation": {"data": {"train": "t.jsonl"}},
    "further flags": {
        "cluster": {"extra_flags": {"ds.overlap_comm": True, "ds.zpg": 8}}
    },
}


def _names(namespace: SimpleNamespace, prefix: str = "") -> Iterator[str]:
    for name, value in vars(namespace).items():
        if hasattr(value, "__dict__"):
            yield from _names(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _value(args: object, name: str) -> object:
    for part in name.split("."):
        args = getattr(args, part)
    return args


@pytest.mark.parametrize("sections", VARIANTS.values(), ids=VARIANTS)
def test_every_command_is_accepted_and_means_what_it_says(
    make_config: Callable[..., TrainConfig], sections: dict[str, Any]
) -> None:
    """Also after OpenRLHF's corrections of its own arguments, which print a warning at most."""
    flags = grpo_flags(make_config(**sections))
    args = check_command(command_words(flags)).args
    for flag in flags:
        if flag.value is not None:
            given = list(flag.value) if isinstance(flag.value, tuple) else flag.value
            assert _value(args, flag.name) == given, flag.name


def test_what_is_not_passed_on_exists(make_config: Callable[..., TrainConfig]) -> None:
    """A name here that OpenRLHF has no flag for would be a misspelt one."""
    flags = grpo_flags(make_config())
    names = set(_names(check_command(command_words(flags)).args))
    for name in NOT_PASSED_ON:
        assert any(known == name or known.startswith(f"{name}.") for known in names), (
            name
        )
    assert {flag.name for flag in flags} <= names


def test_a_flag_that_openrlhf_does_not_have(
    make_config: Callable[..., TrainConfig],
) -> None:
    config = make_config(cluster={"extra_flags": {"ds.zero_stages": "a secret"}})
    with pytest.raises(
        TrainConfigError, match=r"has no flag --ds\.zero_stages"
    ) as caught:
        check_command(command_words(grpo_flags(config)))
    assert caught.value.location == "cluster.extra_flags.ds.zero_stages"
    assert "secret" not in str(caught.value)


def test_a_flag_that_runs_nothing(make_config: Callable[..., TrainConfig]) -> None:
    config = make_config(cluster={"extra_flags": {"help": True}})
    with pytest.raises(TrainConfigError, match="prints its help and does nothing"):
        check_command(command_words(grpo_flags(config)))


def test_flags_that_do_not_go_together() -> None:
    with pytest.raises(TrainConfigError, match="requires n_samples_per_prompt > 1"):
        check_command(
            ["--algo.advantage.estimator", "rloo", "--reward.remote_url", "r.py"]
        )
