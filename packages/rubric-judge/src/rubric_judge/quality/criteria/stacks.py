"""Judged answers of other stacks' logs: TRL, verl, verifiers, NeMo-Gym.

Read as TRL 1.16, verl 0.9.1 and verifiers 0.4 write them, and NeMo-Gym at 07d6b0d07.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from rubric_core import ConfigError, RubricFileError
from rubric_core.data.parquet import read_rows
from rubric_core.files import read_lines
from rubric_judge.quality.criteria.fields import Fields, Place
from rubric_judge.quality.criteria.groups import JudgedAnswer

_TRL = frozenset({"step", "prompt", "completion", "advantage"})
_VERL = frozenset(
    {"input", "output", "gts", "score", "step", "reward", "acc", "uid", "request_id"}
)
"""Columns of TRL and fields of verl that are in every row, and are no scores by criterion."""
TASK_INDEX = "_ng_task_index"
"""NeMo-Gym's key of a group."""
_FAILURES = "_failures"


def trl_answers(
    files: Sequence[Path], fields: Fields, *, group_size: int | None = None
) -> Iterator[JudgedAnswer]:
    """Yield the judged answers of `completions_*.parquet` of `log_completions=True`.

    Answers to one prompt stand together, as `GRPOTrainer` samples them. A file that repeats the
    one before, as TRL writes where it makes several updates of one batch, is left out.

    Args:
        files: in the order of their steps.
        fields: reads scores by criterion.
        group_size: `num_generations`; told from the rows if None.

    Raises:
        RubricFileError: a file that is not TRL's, or rows without scores.
    """
    before: list[tuple[object, object]] = []
    repeated = 0
    for file in files:
        rows = list(read_rows(file))
        texts = [
            (_text(row.get("prompt")), _text(row.get("completion"))) for _, row in rows
        ]
        if texts == before:
            repeated += 1
            continue
        before = texts
        names = _numeric(row for _, row in rows)
        starts = _starts([prompt for prompt, _ in texts], group_size, file)
        for (line, row), group in zip(rows, starts, strict=True):
            place = Place(
                file, line, group, row.get("prompt"), cast("int", row.get("step", 0)),
                row.get("completion"),
            )  # fmt: skip
            # A reward that does not apply is null in the file, and so not in the row.
            own = {name: row.get(name) for name in names}
            yield fields.answer(place, row, own=own)
    if repeated:
        fields.notes.append(
            f"{repeated} files repeat the batch of the file before, as TRL writes where several "
            "updates are made of a batch: each batch was read once"
        )


def _numeric(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the columns of numbers, without those that every file of TRL has."""
    names: dict[str, bool] = {}
    for row in rows:
        for name, value in row.items():
            names[name] = names.get(name, True) and isinstance(value, int | float)
    return [name for name, is_number in names.items() if is_number and name not in _TRL]


def _starts(prompts: Sequence[object], size: int | None, file: Path) -> list[int]:
    """Return for each row where its group begins: rows of one prompt that stand together."""
    lengths = [len(list(run)) for _, run in groupby(prompts)]
    size = size or math.gcd(*lengths) or 1
    starts: list[int] = []
    for length in lengths:
        if length % size:
            raise ConfigError(
                f"--group-size {size}: {file} has {length} rows of one prompt together, which is "
                "no multiple of it; give TRL's `num_generations`",
                location="group-size",
            )
        for _ in range(length):
            starts.append(len(starts) // size * size)
    return starts


def verl_answers(files: Sequence[Path], fields: Fields) -> Iterator[JudgedAnswer]:
    """Yield the judged answers of dumps of `rollout_data_dir` or `validation_data_dir`.

    Args:
        files: `<step>.jsonl`, in the order of their steps.
        fields: reads scores by criterion.

    Raises:
        RubricFileError: a line that is not verl's, or without scores.
    """
    for file in files:
        for line, row in read_lines(file, exact=True):
            if "input" not in row or "step" not in row:
                raise _without_group(
                    file, line, "`uid`, or equal `input` and `gts`, within one `step`"
                )
            group: object = (row["input"], _text(row.get("gts")))
            if isinstance(uid := row.get("uid"), str):
                # {sample}_{rollout}_{output}
                group = uid.rsplit("_", 2)[0]
            place = Place(
                file, line, group, row["input"], int(cast("Any", row["step"])),
                row.get("output"),
            )  # fmt: skip
            own = {name: value for name, value in row.items() if name not in _VERL}
            named = row.get("gts")
            known = named if isinstance(named, str) and named in fields.tasks else None
            yield fields.answer(place, row, own=own, task_id=known)


def verifiers_answers(files: Sequence[Path], fields: Fields) -> Iterator[JudgedAnswer]:
    """Yield the judged answers of `traces.jsonl`, the episodes of a run or an evaluation.

    Args:
        files: the files.
        fields: reads scores by criterion.

    Raises:
        RubricFileError: a line that is no episode, without a group, or without scores.
    """
    for file in files:
        for line, episode in read_lines(file, exact=True):
            task = _mapping(episode.get("task"))
            data = _mapping(task.get("data"))
            group = _mapping(episode.get("group")).get("id")
            group = group or task.get("key") or task.get("hash") or data.get("id")
            if group is None:
                raise _without_group(file, line, "`group.id` or `task.key`")
            work = _mapping(_mapping(episode.get("run")).get("work"))
            step = work.get("step")
            place = Place(
                file,
                line,
                group,
                data.get("prompt", group),
                step if isinstance(step, int) else 0,
            )
            task_id = data.get("task_id") or data.get("id")
            traces = cast("Sequence[object]", episode.get("traces") or ({},))
            for trace in map(_mapping, traces):
                yield _traced(place, trace, fields, task_id)


def _traced(
    place: Place, trace: Mapping[str, object], fields: Fields, task_id: object
) -> JudgedAnswer:
    """Return the judged answer of one trace of an episode."""
    rewards = {
        name: _mapping(reward)
        for name, reward in _mapping(trace.get("rewards")).items()
    }
    row = {**_mapping(trace.get("metrics")), **_mapping(trace.get("info"))}
    scores = {name: reward.get("score") for name, reward in rewards.items()}
    weights = {
        name: float(cast("float", reward.get("weight", 1.0)))
        for name, reward in rewards.items()
    }
    failed = not trace.get("ok", False) and not row and not any(rewards.values())
    return fields.answer(
        replace(place, response=_last_answer(trace) if fields.keeps_texts else None),
        row,
        own=scores,
        weights=weights,
        failed=failed,
        task_id=None if task_id is None else str(task_id),
    )


def _last_answer(trace: Mapping[str, object]) -> object:
    """Return what the agent answered: its reply as the root, or its last message."""
    if trace.get("root_reply") is not None:
        return trace["root_reply"]
    nodes = cast("Sequence[object]", trace.get("nodes") or ())
    messages = (_mapping(_mapping(node).get("message")) for node in reversed(nodes))
    spoken = (part for part in messages if part.get("role") == "assistant")
    return next(spoken, None)


def nemo_gym_answers(files: Sequence[Path], fields: Fields) -> Iterator[JudgedAnswer]:
    """Yield the judged answers of rollouts that `gym eval run` collected.

    Failed judgements are in `<name>_failures.jsonl` beside them; one that succeeded when it was
    tried again is left out.

    Args:
        files: JSON Lines of verify responses.
        fields: reads scores by criterion.

    Raises:
        RubricFileError: a line without `_ng_task_index`, or without scores.
    """
    beside = [file.with_name(f"{file.stem}{_FAILURES}.jsonl") for file in files]
    failures = [file for file in beside if file.is_file() and file not in files]
    known: set[tuple[object, object]] = set()
    for file in [*files, *failures]:
        for line, row in read_lines(file, exact=True):
            if TASK_INDEX not in row:
                raise _without_group(file, line, f"`{TASK_INDEX}`")
            key = row[TASK_INDEX], row.get("_ng_rollout_index", (file, line))
            if key in known:
                continue
            known.add(key)
            asked = _mapping(row.get("responses_create_params")).get("input")
            output = _mapping(row.get("response")).get("output")
            place = Place(file, line, row[TASK_INDEX], asked, response=output)
            named = row.get("task_id")
            config = _mapping(row.get("instance_config"))
            failed = "_ng_failure_class" in row or bool(config.get("mask_sample"))
            components = _mapping(row.get("reward_components"))
            top = {name: row[name] for name in fields.only if name in row}
            yield fields.answer(
                place,
                row,
                own=components or top,
                failed=failed,
                task_id=named if isinstance(named, str) else None,
            )


def _without_group(file: Path, line: int, keys: str) -> RubricFileError:
    return RubricFileError(
        f"does not say which answers were compared with each other; a group is named by {keys}",
        path=file,
        line=line,
    )


def _mapping(value: object) -> Mapping[str, object]:
    """Return a value if it is a mapping, else an empty one."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _text(value: object) -> object:
    """Return a value as text, which can be compared and be a key."""
    return json.dumps(value, sort_keys=True, default=str)
