"""Who judges a rehearsal: the configuration's judge, or a stand-in that speaks its protocol."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal
from zlib import crc32

from rubric_judge import HybridConfig, JudgeConfig, LexicalConfig, LimitsConfig
from rubric_judge.testing import FakeEndpoint
from rubric_train_openrlhf.errors import TrainConfigError

if TYPE_CHECKING:
    from collections.abc import Generator

    from rubric_judge import JudgeSpec
    from rubric_judge.testing import FakeCall
    from rubric_train_openrlhf.cluster.rehearse.subject import JudgeChoice, Subject

_LEVELS: Final = 997
"""Rewards that the endpoint tells apart: enough that a group has a spread."""
_LATENCY_S: Final = 0.05
_OPENAI_COMPATIBLE: Final = ("openai/", "hosted_vllm/")


def decided(
    choice: JudgeChoice, spec: JudgeSpec, *, on_cluster: bool = False
) -> Literal["config", "lexical", "fake"]:
    """Say who judges.

    Args:
        choice: what was asked for.
        spec: of the configuration.
        on_cluster: whether the configuration's judge should be there.

    Raises:
        TrainConfigError: the endpoint is asked for, and the configuration has no language model
            for it to stand in for.
    """
    model = language_model(spec)
    if choice == "auto":
        return "config" if model is None or on_cluster else "fake"
    if choice == "fake" and model is None:
        raise TrainConfigError(
            f"--judge fake speaks a language model's protocol, and judge.spec.type={spec.type!r} "
            "has none; use --judge config or --judge lexical",
            location="judge.spec",
        )
    return choice


def chosen(subject: Subject) -> Literal["config", "lexical", "fake"]:
    """Who judges this rehearsal; see `decided`."""
    request = subject.request
    return decided(request.judge, subject.known.judge.spec, on_cluster=request.on_cluster)


def language_model(spec: JudgeSpec) -> JudgeConfig | None:
    """The language model in a judge, if there is one."""
    inner = spec.judge if isinstance(spec, HybridConfig) else spec
    return inner if isinstance(inner, JudgeConfig) else None


@contextmanager
def judging_with(subject: Subject) -> Generator[JudgeSpec]:
    """Keep the chosen judge's endpoint up, and say what its specification is."""
    spec = subject.known.judge.spec
    match chosen(subject):
        case "config":
            yield spec
        case "lexical":
            if not isinstance(spec, LexicalConfig):
                subject.stand_in("judge: the lexical judge instead of judge.spec")
            yield LexicalConfig()
        case "fake":
            model = language_model(spec)
            assert model is not None  # noqa: S101  # `decided` saw to it
            subject.stand_in(
                f"judge: an endpoint on this machine instead of {model.model!r}; it speaks the "
                "same protocol and draws its scores from the response's hash"
            )
            with FakeEndpoint(_scores, latency=_LATENCY_S, keep="counts") as endpoint:
                fake = _aimed_at(endpoint.url, model)
                is_hybrid = isinstance(spec, HybridConfig)
                yield spec.model_copy(update={"judge": fake}) if is_hybrid else fake


def _scores(call: FakeCall) -> float:
    """The same share of every criterion, drawn from what is judged."""
    return crc32(call.messages[-1]["content"].encode()) % _LEVELS / (_LEVELS - 1)


def _aimed_at(url: str, model: JudgeConfig) -> JudgeConfig:
    """The same judge at another address: prompt, parameters, transport and attempts stay."""
    name = model.model
    if not name.startswith(_OPENAI_COMPATIBLE):
        name = f"openai/{name.rpartition('/')[2]}"
    update = {
        "model": name,
        "api_base": url,
        "api_key_env": None,
        "litellm_config": None,
        # A rate that a provider allows would stretch two steps over minutes.
        "limits": LimitsConfig(max_in_flight=model.limits.max_in_flight),
        # The endpoint answers with scores alone.
        "evidence": "off",
    }
    return JudgeConfig.model_validate({**model.model_dump(), **update})
