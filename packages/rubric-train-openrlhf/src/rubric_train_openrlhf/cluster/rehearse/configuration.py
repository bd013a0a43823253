"""Is the configuration one that OpenRLHF can run, in our reading and in its own?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from rubric_train_openrlhf.cluster.command.flags import (
    command_words,
    grpo_flags,
    warm_start_flags,
)
from rubric_train_openrlhf.cluster.command.refusals import check_command, check_expressible
from rubric_train_openrlhf.cluster.planning.plan import traps
from rubric_train_openrlhf.cluster.rehearse import checking
from rubric_train_openrlhf.config import PathModel, TrainConfig, parse_config
from rubric_train_openrlhf.errors import TrainConfigError


class PartialConfig(TrainConfig):
    """Holds the sections that are well formed; asking for any other is an `UnknownError`."""

    def __getattr__(self, name: str) -> Any:
        """Refuse a section that could not be read."""
        if name in TrainConfig.model_fields:
            raise checking.UnknownError("configuration")
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


def sections_alone(values: Mapping[str, object]) -> tuple[PartialConfig, bool]:
    """Read each section by itself, whatever is wrong with the others or between them.

    Returns:
        The sections, and whether all of them are well formed.
    """
    sections: dict[str, Any] = {}
    missing: list[str] = []
    for name, field in TrainConfig.model_fields.items():
        if name not in values:
            if field.is_required():
                missing.append(name)
            continue
        adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
        try:
            sections[name] = adapter.validate_python(values[name])
        except ValidationError:
            missing.append(name)
    partial = PartialConfig.model_construct(**sections)
    for name in missing:
        # `model_construct` puts the default there.
        vars(partial).pop(name, None)
    return partial, not missing and set(values) <= set(TrainConfig.model_fields)


_KEY: Final = re.compile(r"[a-z_]+(?:\.[a-z_]+)+|^(?:unknown key ')?([a-z_]+)(?=[:='])")


def check_configuration(subject: checking.Subject) -> Iterable[checking.Finding]:
    """Every key and value, and what the sections require of each other."""
    request = subject.request
    try:
        config = subject.config = parse_config(request.values, source=str(request.source))
    except TrainConfigError as error:
        # What is wrong between sections keeps nobody from looking at each of them.
        subject.config, whole = sections_alone(request.values)
        lines = str(error).replace(f"{request.source}: ", "").splitlines()
        problems = subject.config.problems() if whole else lines
        return [checking.failed(problem, where=_key_in(problem)) for problem in problems]
    if config.backend != "openrlhf":
        return [
            checking.failed(
                f"backend={config.backend!r} does not run on a cluster",
                where="backend",
                remedy="set backend: openrlhf, or run it here with `rubric-train run`",
            )
        ]
    said = (
        f"{config.steps} steps of {config.rollout.prompts} prompts × {config.rollout.group_size} "
        f"responses, {config.optim.updates_per_rollout} updates each, on {config.cluster.nodes} × "
        f"{config.cluster.gpus_per_node} GPUs"
    )
    return [checking.passed(said)]


def check_refusals(subject: checking.Subject) -> checking.Finding:
    """What the configuration may say and OpenRLHF cannot do."""
    check_expressible(subject.known)
    return checking.passed("OpenRLHF can do everything that is asked for")


def check_flags(subject: checking.Subject) -> Iterable[checking.Finding]:
    """The command, read by the parser of the OpenRLHF that is installed here."""
    config = subject.known
    path = config.model.path if isinstance(config.model, PathModel) else config.out
    words = command_words(grpo_flags(config, model=path))
    try:
        printed = check_command(words).warnings
        if config.sft is not None:
            more = command_words(warm_start_flags(config, model=path))
            checked = check_command(more, program="openrlhf.cli.train_sft")
            words, printed = [*words, *more], (*printed, *checked.warnings)
    except ImportError as error:
        return [
            checking.unchecked(str(error), remedy="install OpenRLHF 0.11.2, which its extras bring")
        ]
    except TrainConfigError as error:
        where = error.location or ("cluster.extra_flags" if config.cluster.extra_flags else "")
        remedy = "see `rubric-train plan` for which key sets which flag"
        return [checking.failed(str(error), where=where, remedy=remedy)]
    return [
        checking.warning(f"OpenRLHF says: {line}", where=_key_in(line)) for line in printed
    ] or [checking.passed(f"OpenRLHF's parser takes all {len(words)} words of the command")]


def check_traps(subject: checking.Subject) -> Iterable[checking.Finding]:
    """What runs, but seldom as meant."""
    return [checking.warning(trap, where=_key_in(trap)) for trap in traps(subject.known)]


def _key_in(problem: str) -> str:
    """The first dotted key that a problem names, or the section that it begins with."""
    found = _KEY.search(problem)
    return (found[1] or found[0]) if found else ""
