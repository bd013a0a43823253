"""Responses to be judged, and their judgements, in JSON Lines.

A judgement file holds results and rewards, not the responses, passages or rubrics. A judge's
reasoning may quote them, so the file is for the judge's side.
"""

import json
import math
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, cast

import pydantic
from pydantic import BaseModel, Field, JsonValue, StrictStr
from pydantic_core import ValidationError

from rubric_core import (
    Answer,
    ConfigError,
    JudgeResult,
    JudgeView,
    Outcome,
    RubricFileError,
    SchemaError,
    Task,
    Thought,
    Thoughts,
    Unanswered,
    answer_of,
)
from rubric_core.files import read_file, replacing
from rubric_core.rows import ClosedRow, OpenRow, row_error
from rubric_core.strict_json import decode
from rubric_core.traces.recorded import RecordedTrace, is_written_out
from rubric_core.traces.views import answer_view
from rubric_judge.quality.trajectories import (
    Submitted,
    TraceRecord,
    TrajectoryRow,
    refuse_unread,
    trace_record,
    trajectory_beside,
    trajectory_in,
    views_of,
)

_Row = TypeVar("_Row", bound=BaseModel)

_ROUNDED = 1e-3
"""Tolerance for rewards that were written with three digits."""
_THOUGHTS = tuple(map(str, Thought))
_FORM = '{"task_id": "…", "response": "…"}'


class ResponseRow(OpenRow):
    """One line of a file of responses, or of an evaluation's answers, which name it `text`.

    Other fields, such as a model's name, are ignored.
    """

    task_id: StrictStr
    response: StrictStr = Field(
        validation_alias=pydantic.AliasChoices("response", "text")
    )
    thought: Thought | None = None
    """State of the thought before the response, if that is an answer already, as in an evaluation;
    None for a whole completion."""

    def judged(self, thoughts: Thoughts = "cut") -> Answer:
        """Return the part of the response that is judged.

        Args:
            thoughts: how thoughts are told from answers in whole completions.
        """
        if self.thought is not None:
            return Answer(self.response, self.thought)
        return answer_of(self.response, thoughts)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _says_it_once(cls, row: Any) -> Any:
        if isinstance(row, dict):
            fields = cast("dict[str, object]", row)
            text = fields.get("text")
            if "text" in fields and fields.get("response", text) != text:
                raise ValueError(
                    "`response` and `text` differ: leave out the one not to be judged"
                )
            if fields.get("thought") not in _THOUGHTS:  # another program's field
                return {
                    name: value for name, value in fields.items() if name != "thought"
                }
        return cast("object", row)

    @pydantic.model_validator(mode="after")
    def _is_no_trajectory(self) -> Self:
        if self.thought is None and is_written_out(self.response):
            raise ValueError(
                "the response is a trajectory that was written as one text, and would be judged "
                "as that text: name the column `messages`, in which such JSON is read (Python's "
                "own writing, as pandas has it in CSV, becomes JSON by `ast.literal_eval`), or, if "
                'the text is the answer, write `"thought": "none"` beside it'
            )
        return self


class SubmittedRow(ResponseRow):
    """One line of a file of responses, which may hold a trajectory in the place of a text."""

    _trajectory: TrajectoryRow | None = pydantic.PrivateAttr(default=None)
    _beside: TrajectoryRow | None = pydantic.PrivateAttr(default=None)

    @property
    def trajectory(self) -> TrajectoryRow | None:
        """The trajectory; None for a text."""
        return self._trajectory

    @property
    def beside(self) -> TrajectoryRow | None:
        """The trajectory in another column than the response's; None where there is none."""
        return self._beside

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _may_hold_a_trajectory(
        cls, row: Any, handler: pydantic.ModelWrapValidatorHandler[Self]
    ) -> Self:
        trajectory: TrajectoryRow | None = None
        try:
            read = handler(row)
        except ValidationError:
            trajectory = trajectory_in(row)
            if trajectory is None or not isinstance(trajectory.task_id, str):
                refuse_unread(row)
                raise
            read = handler({"task_id": trajectory.task_id, "response": ""})
        return read.holding(trajectory, beside=trajectory_beside(row))

    def holding(
        self, trajectory: TrajectoryRow | None, *, beside: TrajectoryRow | None
    ) -> Self:
        """Return the row with its trajectory, and the one in another column."""
        self._trajectory = trajectory
        self._beside = beside
        return self


class JudgementLine(ClosedRow):
    """One line of a judgement file."""

    line: Annotated[int, Field(strict=True, ge=1)]
    """The response's line in its own file."""
    task_id: StrictStr
    reward: Annotated[float, Field(strict=True, allow_inf_nan=False)] | None
    result: JudgeResult
    thought: Thought | None = None
    """State of the thought before the judged answer; None in a file of an older version."""
    origin: dict[str, JsonValue] = Field(default_factory=dict)
    """For a repeated judgement: the response's id in its source and the earlier judgement."""
    trace: TraceRecord | None = None
    """Parts of a trajectory that were judged; None for a response of one text."""

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Self:
        reward = reward_of(self.result)
        if self.reward is None or reward is None:
            if self.reward is not reward:
                outcome = self.result.outcome.value
                raise ValueError(
                    "the reward is null where the judge was not reached, and only there: it "
                    f"is {self.reward}, the result is {outcome!r}"
                )
        elif abs(self.reward - reward) > _ROUNDED:
            raise ValueError(
                f"the reward is {self.reward:g}, its result's is {reward:g}"
            )
        return self


@dataclass(frozen=True, slots=True)
class JudgedResponse:
    """A response's line number, view and judgement."""

    line: int
    view: JudgeView
    result: JudgeResult
    origin: Mapping[str, object] = field(default_factory=dict[str, object])
    """Its earlier place and judgement; written beside the judgement."""
    trace: TraceRecord | None = None
    """Parts of a trajectory that were judged."""

    @property
    def reward(self) -> float | None:
        """The normalised reward; None if the judge was not reached."""
        if self.result.outcome is Outcome.UNAVAILABLE:
            return None
        from rubric_core import normalized_reward  # loads numpy

        return normalized_reward(self.result, self.view.rubric)


@dataclass(frozen=True)
class AnswerCounts:
    """Numbers of responses that are, or contain, something else than an answer."""

    responses: int
    thoughts: int
    """Number of responses with a thought, closed or not."""
    unclosed: int
    """Number of responses with an unclosed thought: they have no answer, and score 0."""
    empty: int
    """Number of responses without any text for an answer; they score 0 too."""

    @classmethod
    def of(cls, views: Iterable[JudgeView]) -> Self:
        """Count the views by their thoughts and answers."""
        seen = [(view.thought, view.unanswered) for view in views]
        thoughts = [thought for thought, _ in seen]
        return cls(
            responses=len(seen),
            thoughts=len(seen) - thoughts.count(Thought.NONE),
            unclosed=thoughts.count(Thought.UNCLOSED),
            empty=sum(reason is Unanswered.EMPTY for _, reason in seen),
        )


def read_submitted(
    path: Path, tasks: Mapping[str, Task], *, thoughts: Thoughts = "cut"
) -> list[Submitted]:
    """Read responses, or trajectories of turns and tools, and join them with their tasks.

    Args:
        path: a JSON Lines file with `{"task_id": …, "response": …}`, or an evaluation's
            answers/MODEL/seed_S.jsonl; blank lines, and rows without an answer of the model, are
            skipped. A response that is no text is a trajectory, and so is a row as verifiers, NeMo
            Gym and Harbor write it.
        tasks: tasks by id.
        thoughts: how thoughts are told from answers in whole completions.

    Raises:
        ConfigError: there are no tasks.
        RubricFileError: a line is no such object, holds a trajectory of no known format or a
            damaged one, or names an unknown task; or there is no line.
        OSError: the file cannot be read.
    """
    if not tasks:
        raise ConfigError("the task file holds no task", location="tasks")
    read: list[Submitted] = []
    rows = read_rows(path, SubmittedRow, form=_FORM, skips=_is_unanswered)
    for line, row in rows:
        task = tasks.get(row.task_id)
        if task is None:
            raise RubricFileError(
                f"no task has the id {row.task_id!r}; the task file holds {len(tasks)} "
                "others. Take the task file that the id came from: `rubric-judge export "
                "policy TASKS PROMPTS` writes its questions with their ids, `Task.task_id` "
                "in Python",
                path=path,
                line=line,
                field="task_id",
            )
        try:
            recorded = _recorded(row, task, thoughts)
        except SchemaError as error:
            raise RubricFileError(
                str(error), path=path, line=line, field=error.field
            ) from None
        if recorded is None:
            views = answer_view(task.judge_view(row.judged(thoughts)))
        else:
            views = views_of(task, recorded)
        read.append(Submitted(line, views, recorded))
    if not read:
        raise RubricFileError("holds no response: name a file of answers", path=path)
    return read


def _recorded(
    row: SubmittedRow, task: Task, thoughts: Thoughts
) -> RecordedTrace | None:
    """Return the trajectory of a row, None where its text is judged.

    Raises:
        SchemaError: it is of no known format or damaged, or another column ends otherwise.
    """
    recorded = None if row.trajectory is None else row.trajectory.read(thoughts)
    if row.beside is None:
        return recorded
    answer = row.judged(thoughts) if recorded is None else recorded.trace.answer
    ending = row.beside.ending(thoughts)
    if ending is None:
        return recorded
    if ending.text.split() != answer.text.split():
        raise SchemaError(
            f"the response and the last reply in {row.beside.column!r} differ: leave out the one "
            "not to be judged",
            field=row.beside.column,
        )
    if recorded is None and task.rubric.judges_traces:
        return row.beside.read(thoughts)
    return recorded


def read_responses(
    path: Path, tasks: Mapping[str, Task], *, thoughts: Thoughts = "cut"
) -> list[tuple[int, JudgeView]]:
    """Read responses as people read them: that of a trajectory is the text of all of it.

    Returns:
        Line numbers, from 1, and the views, which hold the answers.

    Raises:
        ConfigError, RubricFileError, OSError: as `read_submitted`.
    """
    read = read_submitted(path, tasks, thoughts=thoughts)
    return [(item.line, item.view) for item in read]


def response_rows(path: Path) -> Iterator[tuple[int, ResponseRow]]:
    """Yield line number, from 1, and row of a file of responses; blank lines are skipped.

    An evaluation's rows without an answer of the model, whose `text` is null, are skipped too.

    Raises:
        RubricFileError: a line is no such object.
        OSError: the file cannot be read.
    """
    return read_rows(
        path,
        ResponseRow,
        form=_FORM,
        skips=_is_unanswered,
    )


def _is_unanswered(line: bytes) -> bool:
    # Within a JSON string the quotes would be escaped.
    return b'"text":null' in line and b'"response"' not in line


def read_judgements(path: Path) -> Iterator[tuple[int, JudgementLine]]:
    """Yield line number, from 1, and row of a judgement file; blank lines are skipped.

    Raises:
        RubricFileError: a line is not a judgement, its reward is not its result's, or it judges a
            response a second time by the same judge.
        OSError: the file cannot be read.
    """
    form = '{"line": 1, "task_id": "…", "reward": 0.5, "result": {…}}'
    seen: dict[tuple[str, int, str], int] = {}
    for line, row in read_rows(path, JudgementLine, form=form):
        first = seen.setdefault((row.result.judge, row.line, row.task_id), line)
        if first != line:
            raise RubricFileError(
                f"judges the response of line {row.line} again, as line {first} does: put a "
                "second judgement by the same judge into a file of its own",
                path=path,
                line=line,
                field="line",
            )
        yield line, row


def judged_rows(
    submitted: Sequence[Submitted], results: Sequence[JudgeResult]
) -> list[JudgedResponse]:
    """Return one row for each response or trajectory.

    Args:
        submitted: the responses.
        results: one for each of `views_of_all(submitted)`.
    """
    following = iter(results)
    rows: list[JudgedResponse] = []
    for item in submitted:
        own = list(islice(following, len(item.views.parts)))
        result = item.views.joined(own)
        trace = None if item.recorded is None else trace_record(item, own)
        whole = item.views.whole
        rows.append(JudgedResponse(item.line, whole, result, trace=trace))
    return rows


def reward_of(result: JudgeResult) -> float | None:
    """Return Σ s_j / W of a stored result; the result holds both, so no rubric is needed."""
    if result.outcome is Outcome.UNAVAILABLE:
        return None
    if not result.max_total:
        return 0.0
    return min(math.fsum(result.scores.values()) / result.max_total, 1.0)


def read_rows(
    path: Path,
    model: type[_Row],
    *,
    form: str,
    skips: Callable[[bytes], bool] | None = None,
) -> Iterator[tuple[int, _Row]]:
    """Yield line number, from 1, and row of a file with one kind of row.

    Args:
        path: a JSON Lines file; blank lines are skipped.
        model: the model of the rows; it hides its input in errors.
        form: an example of a line, for the error.
        skips: tells which lines to skip without parsing them.

    Raises:
        RubricFileError: a line is no such row; the error shows no value of it.
        OSError: the file cannot be read.
    """
    # Some editors put a byte order mark before UTF-8.
    content = read_file(path).removeprefix(BOM_UTF8)
    for line, text in enumerate(content.splitlines(), 1):
        if not text.strip() or (skips is not None and skips(text)):
            continue
        try:
            row = model.model_validate_json(text)
            # pydantic would take the last of two equal keys; its own output never has two.
            if row.model_dump_json().encode() != text:
                decode(text.decode())
        except ValidationError as error:
            remedy = f"a line is {form}"
            if b'"criteria"' in text:
                remedy = f"this is a line of tasks, which another place takes; {remedy}"
            if error.errors(include_input=False)[0]["type"] == "json_invalid":
                other = "not CSV or one JSON list"
                if b"\0" in content:
                    other = "and looks binary"
                remedy = f"the file must be JSON Lines, {other}; {remedy}"
            raise row_error(error, remedy, path=path, line=line) from None
        except SchemaError as error:
            # Two equal keys, or a result that contradicts itself.
            raise RubricFileError(
                str(error), path=path, line=line, field=error.field
            ) from None
        yield line, row


def write_judgements(path: Path, judged: Iterable[JudgedResponse]) -> None:
    """Write one line for each response; the file appears when it is complete.

    Args:
        path: the file; an older one is replaced.
        judged: the judgements, in the order to write.

    Raises:
        OSError: the file cannot be written; an older one is still there.
    """
    with replacing(path) as file:
        file.writelines(f"{json.dumps(_judgement(row))}\n".encode() for row in judged)


def _judgement(judged: JudgedResponse) -> dict[str, object]:
    row: dict[str, object] = {
        "line": judged.line,
        "task_id": judged.view.task_id,
        "reward": judged.reward,
        "thought": judged.view.thought.value,
        "result": judged.result.model_dump(mode="json"),
    }
    if judged.trace is not None:
        row["trace"] = judged.trace.model_dump(mode="json")
    if judged.origin:
        row["origin"] = dict(judged.origin)
    return row
