"""From a configuration to a judge; also what the entry points `rubric.judges` call."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import cast

from rubric_core import Judge, JudgeResult, JudgeView, PluginError, find_judge
from rubric_core.files import text_sha256
from rubric_judge import config
from rubric_judge.checks.execute import Programs
from rubric_judge.judges import panel
from rubric_judge.judges.capabilities import (
    Fingerprinted,
    GroupJudge,
    Immediate,
    ReadsExcerpts,
    WordMatching,
    wants_warm_call,
)
from rubric_judge.judges.cascade import queue, record
from rubric_judge.judges.cascade.judge import CascadeJudge
from rubric_judge.judges.claims.judge import ClaimJudge
from rubric_judge.judges.hybrid import HybridJudge
from rubric_judge.judges.lexical.judge import LexicalJudge
from rubric_judge.judges.llm.judge import LLMJudge
from rubric_judge.judges.llm.listwise import ListwiseJudge
from rubric_judge.judges.several import SeveralJudges
from rubric_judge.models.limits import Limited, Limiter


def load_judge(spec: config.JudgeSpec, *, limiter: Limiter | None = None) -> Judge:
    """Build the judge that a configuration describes.

    Args:
        spec: a `JudgeSpec`.
        limiter: for the attempts of a language model's judge; its own `limits` when left out.

    Returns:
        The judge, ready to be called. A plugin's judge without a `fingerprint` is given one, of
        its entry point's name and its options, so that a ledger tells its settings apart.

    Raises:
        JudgeSetupError: a key is named and not there; or a folder of a model cannot be used.
        ConfigError: the `litellm_config` cannot be used; or a cascade is not calibrated, or its
            calibration is of other judges or settings, or its label queue cannot be written; or a
            panel has a judge twice, or one that its calibration does not admit.
        PluginError: no installed package registers the plugin, or what it makes is not a judge.
        SandboxError: unit tests are switched on and this machine cannot confine them.
        MissingExtraError: they are, and no sandbox is installed; or another extra is missing.
    """
    match spec:
        case config.LexicalConfig() | config.ClaimConfig():
            return LexicalJudge(spec) if spec.type == "lexical" else ClaimJudge(spec)
        case config.JudgeConfig():
            return LLMJudge(spec, limiter=limiter)
        case config.ListwiseConfig():
            return ListwiseJudge(spec, limiter=limiter)
        case config.PluginConfig():
            return _plugin(spec)
        case config.HybridConfig():
            return HybridJudge(load_judge(spec.judge, limiter=limiter), spec)
        case config.CascadeConfig() | config.PanelConfig():
            return _several(spec, limiter=limiter)


def _several(
    spec: config.CascadeConfig | config.PanelConfig, *, limiter: Limiter | None
) -> Judge:
    if isinstance(spec, config.CascadeConfig) and spec.label_queue is not None:
        queue.require_queue(spec.label_queue)
    judges = tuple(load_judge(judge, limiter=limiter) for judge in spec.judges)
    if isinstance(spec, config.PanelConfig):
        panel.require_admitted(spec, judges)
        return panel.PanelJudge(judges, spec)
    calibration = record.calibrated(spec, judges)
    if spec.decide == "group":
        from rubric_judge.judges.cascade.group import GroupCascadeJudge

        return GroupCascadeJudge(judges, spec, calibration)
    return CascadeJudge(judges, spec, calibration)


def load_replicas(
    spec: config.JudgeSpec, *, limiter: Limiter | None = None
) -> tuple[Judge, ...]:
    """Build one judge for each address that a configuration names, for a pool to schedule.

    Args:
        spec: a `JudgeSpec`.
        limiter: shared by all of them; when left out, each replica has the `limits` to itself.

    Returns:
        The judges, which have one fingerprint; a single one for a single address.

    Raises:
        JudgeSetupError, ConfigError, PluginError, SandboxError: as `load_judge`.
    """
    if isinstance(spec, config.HybridConfig):
        programs = Programs(spec)
        readers = load_replicas(spec.judge, limiter=limiter)
        return tuple(HybridJudge(reader, spec, programs=programs) for reader in readers)
    if not isinstance(spec, config.JudgeConfig | config.ListwiseConfig):
        return (load_judge(spec, limiter=limiter),)
    replicas = (
        spec.model_copy(update={"api_base": address}) for address in spec.addresses
    )
    return tuple(load_judge(replica, limiter=limiter) for replica in replicas)


def word_matchers(spec: config.JudgeSpec) -> Iterator[WordMatching]:
    """Yield the judges of a configuration that look for words; no model is loaded.

    Args:
        spec: a `JudgeSpec`; those of a hybrid and of a cascade are looked at too.

    Raises:
        PluginError: no installed package registers a plugin, or what it makes is not a judge.
    """
    match spec:
        case config.LexicalConfig():
            yield LexicalJudge()
        case config.ClaimConfig():
            yield ClaimJudge()
        case config.PluginConfig():
            judge = _plugin(spec)
            if isinstance(judge, WordMatching):
                yield judge
        case config.HybridConfig():
            yield from word_matchers(spec.judge)
        case config.CascadeConfig() | config.PanelConfig():
            for judge_spec in spec.judges:
                yield from word_matchers(judge_spec)
        case config.JudgeConfig() | config.ListwiseConfig():
            pass


class _Optioned(SeveralJudges):
    """A plugin's judge that says nothing of its options: they are its fingerprint."""

    def __init__(self, judge: Judge, spec: config.PluginConfig) -> None:
        super().__init__((judge,))
        self._judge = judge
        self.name = judge.name
        options = json.dumps([spec.name, spec.options], sort_keys=True)
        self.fingerprint = f"{self.name} {text_sha256(options)[:16]}"
        self.warm_call = wants_warm_call(judge)
        if isinstance(judge, Limited):
            self.limiter = judge.limiter
        if isinstance(judge, Immediate):
            self.judge_now = judge.judge_now
        if isinstance(judge, WordMatching):
            self.reads_claims = judge.reads_claims
        if isinstance(judge, ReadsExcerpts):
            self.refuse_excerpt = judge.refuse_excerpt
        if isinstance(judge, GroupJudge):
            self.max_group = judge.max_group
            self.judge_group = judge.judge_group
            self.fails_apart = getattr(judge, "fails_apart", False)

    async def judge(self, view: JudgeView) -> JudgeResult:
        return await self._judge.judge(view)


def _plugin(spec: config.PluginConfig) -> Judge:
    judge = find_judge(spec.name)(spec.options)
    if not isinstance(cast("object", judge), Judge):
        raise PluginError(
            f"{spec.name!r} in 'rubric.judges' makes a {type(judge).__name__}, which is no "
            "Judge: it needs `name` and `async def judge(view)`"
        )
    return judge if isinstance(judge, Fingerprinted) else _Optioned(judge, spec)


def _configured(kind: str, options: Mapping[str, object]) -> Judge:
    return load_judge(config.judge_spec({"type": kind, **options}))


lexical_judge, claim_judge, hybrid_judge, cascade_judge, llm_judge, panel_judge = (
    partial(_configured, kind)
    for kind in ("lexical", "claims", "hybrid", "cascade", "llm", "panel")
)
"""Functions behind the entry points of these names; they get a configuration's options."""
