"""Who judges a rehearsal, whether that judge is there, and whether it keeps to its contract."""

import ipaddress
from collections.abc import Generator, Sequence
from contextlib import aclosing, contextmanager
from typing import Literal
from urllib.parse import urlsplit
from zlib import crc32

import anyio

import rubric_core as core
from rubric_core import ConfigError, Judge, JudgeResult, Outcome, RubricError, Task
from rubric_judge import (
    ClaimConfig,
    HybridConfig,
    JudgeConfig,
    JudgePool,
    JudgeSpec,
    LexicalConfig,
    LimitsConfig,
)
from rubric_judge.judges.capabilities import check as check_there
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.judges.load import load_replicas
from rubric_judge.testing import FakeCall, FakeEndpoint
from rubric_train_openrlhf.cluster.rehearse import checking as check
from rubric_train_openrlhf.cluster.rehearse.checking import Finding, Subject
from rubric_train_openrlhf.cluster.rehearse.stand_ins import made_tasks
from rubric_train_openrlhf.cluster.rehearse.tasks import TRAIN
from rubric_train_openrlhf.config.cluster import ClusterConfig
from rubric_train_openrlhf.errors import TrainConfigError
from rubric_train_openrlhf.step.admission import described, read_admission

_INSIDE = (
    ".cluster",
    ".corp",
    ".internal",
    ".intranet",
    ".lan",
    ".local",
    ".svc",
)
"""Ends of names that only the name servers of a network of one's own know."""


def why_only_there(address: str | None, cluster: ClusterConfig) -> str:
    """Say why a server need not answer on this machine.

    Args:
        address: of a judge's server; None for a provider's own.
        cluster: the run's.

    Returns:
        What of the cluster it belongs to; nothing where it should answer from everywhere, or where
        nothing in the configuration serves it.
    """
    host = urlsplit(address or "").hostname
    if not host or cluster.device == "cpu":
        return ""
    try:
        ip = ipaddress.ip_address(host)
        is_here = ip.is_loopback or ip.is_unspecified
        is_inside = not ip.is_global
    except ValueError:
        is_here = host == "localhost" or host.endswith(".localhost")
        is_inside = "." not in host or host.endswith(_INSIDE)
    if is_here:
        return (
            "on the GPUs that the run leaves to it"
            if cluster.judge_gpus_per_node
            else ""
        )
    return "in the cluster's own network" if is_inside else ""


_LEVELS = 997
"""Rewards that the endpoint tells apart: enough that a group has a spread."""
_LATENCY_S = 0.05
_PROGRAMS = {"claims": ClaimConfig(), "lexical": LexicalConfig()}
_OPENAI_COMPATIBLE = ("openai/", "hosted_vllm/")


def chosen(subject: Subject) -> Literal["config", "claims", "lexical", "fake"]:
    """Say who judges a rehearsal.

    Raises:
        TrainConfigError: the endpoint is asked for, and the configuration has no language model
            for it to stand in for.
    """
    request = subject.request
    judge = subject.known.judge
    if request.judge == "auto":
        return (
            "config" if judge.language_model is None or request.on_cluster else "fake"
        )
    if request.judge == "fake" and judge.language_model is None:
        raise TrainConfigError(
            "--judge fake speaks a language model's protocol, and "
            f"judge.spec.type={judge.spec.type!r} has none; use --judge config or --judge "
            "claims",
            location="judge.spec",
        )
    return request.judge


@contextmanager
def judging_with(subject: Subject) -> Generator[JudgeSpec]:
    """Keep the chosen judge's endpoint up, and say what its specification is."""
    spec = subject.known.judge.spec
    model = subject.known.judge.language_model
    judge = chosen(subject)
    if judge in _PROGRAMS:
        if not isinstance(spec, type(program := _PROGRAMS[judge])):
            subject.stand_in(f"judge: the {judge} judge instead of judge.spec")
        yield program
    elif judge == "config" or model is None:
        yield spec
    else:
        subject.stand_in(
            f"judge: an endpoint on this machine instead of {model.model!r}; it speaks the "
            "same protocol and draws its scores from the response's hash"
        )
        with FakeEndpoint(_scores, latency=_LATENCY_S, keep="counts") as endpoint:
            fake = _aimed_at(endpoint.url, model)
            yield spec.model_copy(update={"judge": fake}) if spec is not model else fake


def _scores(call: FakeCall) -> float:
    """The same share of every criterion, drawn from what is judged."""
    return crc32(call.messages[-1]["content"].encode()) % _LEVELS / (_LEVELS - 1)


def _aimed_at(url: str, model: JudgeConfig) -> JudgeConfig:
    """The same judge at another address: prompt, parameters, transport and attempts stay."""
    is_known = model.model.startswith(_OPENAI_COMPATIBLE)
    update = {
        "model": model.model
        if is_known
        else f"openai/{model.model.rpartition('/')[2]}",
        "api_base": url,
        "api_key_env": None,
        "litellm_config": None,
        # A rate that a provider allows would stretch two steps over minutes.
        "limits": LimitsConfig(max_in_flight=model.limits.max_in_flight),
        # The endpoint answers with scores alone.
        "evidence": "off",
    }
    return JudgeConfig.model_validate({**model.model_dump(), **update})


def sampled(spec: JudgeSpec) -> JudgeSpec:
    """Return the judge with sampled verdicts, which need no calibration; any other as it is."""
    model = spec.judge if isinstance(spec, HybridConfig) else spec
    if not isinstance(model, JudgeConfig) or not model.is_by_probability:
        return spec
    ours = {
        "verdict": True,
        "granularity": True,
        "temperature": True,
        "max_tokens": True,
        "parameters": {"top_logprobs"},
    }
    drawn = JudgeConfig.model_validate(model.model_dump(exclude=ours))
    if isinstance(spec, HybridConfig):
        return spec.model_copy(update={"judge": drawn})
    return drawn


_CHECK_WITHIN_S = 40.0
"""For a judge that keeps no time itself; a language model's client gives up before."""
_ANSWER = "I do not know the answer to this question."


def check_reachable(subject: Subject) -> Finding:
    """Build the configuration's own judge and ask whether it is there, whoever judges here.

    What does not answer is a failure, unless only the cluster can be expected to reach it.
    """
    config = subject.known
    request = subject.request
    spec = config.judge.spec
    model = config.judge.language_model
    addresses = model.addresses if model else (None,)
    try:
        silent = anyio.run(_silent, spec, addresses)
    except RubricError as error:
        silent = dict.fromkeys(addresses, str(error))
    if not silent:
        return check.passed(f"{model.model if model else spec.type!r} is there")
    # One that should answer says more than one that need not.
    reasons = {address: why_only_there(address, config.cluster) for address in silent}
    first = min(silent, key=lambda address: bool(reasons[address]))
    said = silent[first]
    if len(addresses) > 1:
        said += f" ({len(silent)} of {len(addresses)} servers)"
    repair = (
        "repair the judge or judge.spec; the address must be one that the run reaches"
    )
    if chosen(subject) == "config" or request.on_cluster:
        return check.failed(said, remedy=repair)
    if request.judge != "auto":
        return check.warning(
            f"{said}; --judge {request.judge} does without it",
            remedy="have it answer before the run",
        )
    if reasons[first]:
        return check.warning(
            f"{said}; it is {reasons[first]}, and a stand-in judges here",
            remedy="start it before the run, and rehearse there with --on-cluster",
        )
    return check.failed(
        said, remedy=f"{repair}. Where only the cluster reaches it: --judge fake"
    )


def check_contract(subject: Subject) -> Finding:
    """Have the chosen judge score one task: one of the run's where they are here."""
    task = next(iter(subject.tasks.get(TRAIN, ())), made_tasks()[0])
    try:
        with judging_with(subject) as spec:
            result = anyio.run(_judge_one, spec, task)
    except RubricError as error:
        return check.failed(f"{error}", remedy="repair the judge or judge.spec")
    judge = chosen(subject)
    who = "" if judge == "config" else f" (the {judge} judge)"
    if result.outcome is not Outcome.SCORED:
        why = ", ".join(filter(None, (result.reason or "no reason", result.detail)))
        return check.failed(
            f"the judgement of task {task.task_id} is {result.outcome.value}: {why}{who}",
            remedy="every response would be treated like this one: repair the judge "
            "first",
        )
    seconds = f" in {result.latency_s:.2f} s" if result.latency_s is not None else ""
    reward = core.normalized_reward(result, task.rubric)
    return check.passed(
        f"task {task.task_id}: {len(task.rubric)} criteria scored{seconds}, reward "
        f"{reward:.2f}{who}"
    )


def check_admission(subject: Subject) -> Finding:
    """Say what the calibration masks of the tasks' criteria, and whether it is of this judge."""
    config = subject.known
    path = subject.known.judge.calibration
    tasks = [task for of_file in subject.tasks.values() for task in of_file]
    if path is None:
        return check.passed(
            "no judge.calibration: every criterion counts as its weight says"
        )
    if not path.is_file():
        missing = f"no file at {str(path)!r} on this machine"
        remedy = "copy it here, or write it with `rubric-judge calibrate`"
        return subject.absent(missing, remedy=remedy)
    if not tasks:
        return check.unchecked("no task of the run is on this machine")
    try:
        judge = fingerprint(load_replicas(config.judge.spec)[0])
        admission = read_admission(config.judge, tasks, judge_fingerprint=judge)
    except ConfigError as error:
        return check.failed(str(error), remedy="calibrate this judge on these rubrics")
    except RubricError:
        return check.needs("judge reachable")
    return check.passed(described(admission, [task.rubric for task in tasks]))


async def _silent(
    spec: JudgeSpec, addresses: Sequence[str | None]
) -> dict[str | None, str]:
    """Ask all replicas at once; those that do not answer, with what they say instead."""
    judges = load_replicas(spec)
    said = dict[str | None, str]()

    async def ask(judge: Judge, address: str | None) -> None:
        try:
            with anyio.fail_after(_CHECK_WITHIN_S):
                await check_there(judge)
        except TimeoutError:
            said[address] = (
                f"no answer of {address or judge.name} within {_CHECK_WITHIN_S:.0f} s"
            )
        except RubricError as error:
            said[address] = str(error)

    async with aclosing(JudgePool(judges)), anyio.create_task_group() as group:
        for judge, address in zip(judges, addresses, strict=True):
            group.start_soon(ask, judge, address)
    return {address: said[address] for address in addresses if address in said}


async def _judge_one(spec: JudgeSpec, task: Task) -> JudgeResult:
    judges = load_replicas(spec)
    async with aclosing(JudgePool(judges)):
        return await judges[0].judge(task.judge_view(task.reference_answer or _ANSWER))
