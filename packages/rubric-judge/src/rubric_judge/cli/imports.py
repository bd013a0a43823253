"""`rubric-judge import`, `export` and `init`: rubrics of other formats, and files to start from."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rubric_core import RubricFileError, Task, Thought, formats, read_tasks, write_tasks
from rubric_judge.ui.console.command import (
    FAILED,
    Positive,
    console,
    print_pairs,
    print_rows,
)
from rubric_judge.ui.console.outputs import require_writable
from rubric_judge.ui.starting import example_files, preset, write_new

_SHOWN = 5
_COUNTED = (
    _CRITERIA := "criteria",
    _PENALTIES := "  of them penalties",
    _REFERENCES := "with a reference answer",
    _CUT := "  of them cut after a thought",
    _DROPPED := "with a thought for an answer",
    _READ := "values read",
    _LEFT := "values left out on purpose",
)
"""Counts of the summary, in order."""


def import_rubrics(  # noqa: PLR0913  # a flag each
    format_: Annotated[str, Parameter(name="FORMAT")],
    source: Annotated[Path, Parameter(name="IN")],
    out: Path,
    /,
    *,
    pitfalls: Literal["avoidance", "failure", "worded"] | None = None,
    questions: Path | None = None,
    leave_out: tuple[str, ...] = (),
    column: tuple[str, ...] = (),
    sheet: str | None = None,
    limit: Positive | None = None,
) -> int:
    """Read rubrics of another format and write them as tasks.

    Example: rubric-judge import healthbench rows.jsonl tasks.jsonl

    Every field of a row is read, or left out on purpose and counted, or the row is rejected.

    Formats: biggen, checkeval, checklist (any list of criteria), criteria (verifiers, rubric,
    autorubric), deep_research_bench, dr_tulu, feedback_collection, gdpval, harbor (task folders),
    healthbench, hellobench, inverse_if, multichallenge, openrubrics, paper, paperbench, prbench,
    profbench, prometheus, rar, researchrubrics, rewardkit, rubric_spec, rubrichub, scholarqabench,
    table (one row a criterion, .csv or .xlsx), tinker, wildbench, writingbench.

    Args:
        format_: Name of the format.
        source: File to read: JSON Lines, JSON, Parquet, TOML, CSV or .xlsx, as the format has it; a
            folder for harbor.
        out: File to write: .jsonl or .parquet.
        pitfalls: How criteria with negative weights that deny something are worded, where a data
            set has both kinds: worded (each by its verb: "does not mention ..." is a fault, "does
            not recommend ..." is what a good answer does), failure (all are faults) or avoidance
            (a good answer meets all).
        questions: JSON Lines with `question`, for files that hold rubrics without questions.
        leave_out: Field to do without, such as `rubrics.*.note`; may be repeated.
        column: What a table's column is, in place of a guess: `weight=Pts`, or `weight=D` by its
            letter; may be repeated. Parts: question, criterion, weight, reference, passage, guide,
            section, name, id, question_id, kind.
        sheet: Sheet of a workbook, in place of the first.
        limit: Most tasks to read.

    Returns:
        Exit status: 1 when not a single task could be read.
    """
    require_writable(out, flag="OUT", inputs=(source, questions))
    rejected: list[RubricFileError] = []
    counts: Counter[str] = Counter(dict.fromkeys(_COUNTED, 0))
    left_out = Counter[formats.LeftOut]()
    importeds = formats.import_tasks(
        format_,
        source,
        options=formats.ImportOptions(pitfalls, questions, leave_out, column, sheet),
        on_reject=rejected.append,
        on_note=_say,
    )
    written = write_tasks(out, _counted(islice(importeds, limit), counts, left_out))
    ends = (("rejected rows", len(rejected)), ("written", out))
    print_pairs([("tasks", written), *counts.items(), *ends])
    if left_out:
        rows = [
            (omission.field, str(count), omission.reason)
            for omission, count in left_out.most_common()
        ]
        print_rows(("left out on purpose", "values", "why"), rows)
    for error in rejected[:_SHOWN]:
        console(stderr=True).print(f"rejected: {error}", soft_wrap=True)
    return 0 if written else FAILED


def _say(note: str) -> None:
    console().print(note, soft_wrap=True, markup=False)


def _counted(
    importeds: Iterator[formats.Imported],
    counts: Counter[str],
    left_out: Counter[formats.LeftOut],
) -> Iterator[Task]:
    for imported in importeds:
        counts[_CRITERIA] += len(imported.task.rubric)
        counts[_PENALTIES] += sum(formats.is_penalty(c) for c in imported.task.rubric)
        counts[_REFERENCES] += imported.task.reference_answer is not None
        counts[_CUT] += imported.reference_thought is Thought.CLOSED
        counts[_DROPPED] += imported.reference_thought is Thought.UNCLOSED
        if imported.fields is not None:
            counts[_READ] += imported.fields.read
            counts[_LEFT] += imported.fields.left_out.total()
            left_out.update(imported.fields.left_out)
        yield imported.task


def export_rubrics(
    format_: Annotated[str, Parameter(name="FORMAT")], tasks: Path, out: Path, /
) -> None:
    """Write tasks in another stack's format.

    Example: rubric-judge export policy tasks.jsonl prompts.jsonl

    Formats: healthbench, nemo_gym, policy (task id and question alone, for the policy's side), rar,
    rubrichub. All but policy hold the rubric and belong on the judge's side.

    Args:
        format_: Name of the format.
        tasks: Tasks, JSON Lines in the paper's schema (or Parquet).
        out: File to write, JSON Lines.
    """
    require_writable(out, flag="OUT", inputs=(tasks,))
    written = formats.export_tasks(format_, out, read_tasks(tasks))
    console().print(f"{written} tasks written to {out}", soft_wrap=True)


def init(folder: Path, /, *, judge: str = "claims") -> int:
    """Write judge.yaml, and tasks and answers to try it on, into a folder.

    Example: rubric-judge init first

    Nothing is overwritten. Judges: anthropic, cascade, claims, gemini, hybrid, lexical,
    openai, vllm_gpt_oss_20b, vllm_replicas.

    Args:
        folder: Folder to write to; made where there is none.
        judge: Configuration to start from. All but claims and lexical name a model, and a key or a
            server.

    Returns:
        Exit status.
    """
    chosen = preset("rubric_judge", judge, flag="--judge")
    written = judge_file, tasks, answers = write_new(
        folder, {"judge.yaml": chosen, **example_files()}
    )
    score = (
        f"score {tasks} {answers} --judge {judge_file} --out {folder / 'judged.jsonl'}"
    )
    lines = ["next:", f"rubric-judge lint {tasks}", f"rubric-judge {score}"]
    for line in (*(f"wrote {path}" for path in written), *lines):
        console().print(line, soft_wrap=True)
    return 0
