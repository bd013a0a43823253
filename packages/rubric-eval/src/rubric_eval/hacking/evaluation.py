"""The panel of an evaluation on disk: hacking.json, with the hash of what it was made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rubric_core import read_tasks
from rubric_eval.errors import EvalFolderError
from rubric_eval.hacking.found import HackingPanel, HackingSettings, observed
from rubric_eval.hacking.panel import baseline_of, hacking_panel
from rubric_eval.hacking.second import check_tasks, judge_again, sampled_questions
from rubric_eval.records import EvalFolder, evaluation_files, hashed_inputs, path_from
from rubric_eval.records.digests import check_files, refusing_edits, sealed
from rubric_eval.records.files import read_finished_run, write_json
from rubric_eval.scores.judged import JudgedReader
from rubric_judge import JudgePool, Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rubric_core import Judge, Task
    from rubric_eval.hacking.found import Judged, Key, Observed
    from rubric_eval.records import EvalRun
    from rubric_eval.records.digests import Edits


def _nothing(model: str, total: int) -> None:
    del model, total


@dataclass(frozen=True)
class NewJudge:
    """A judge that the evaluation does not have, for a sample of its questions.

    Its judgements are kept in the evaluation's ledger. Nothing is called or written before
    everything else is checked.
    """

    replicas: tuple[Judge, ...]
    """As `rubric_judge.load_replicas` gives them; whoever made them closes them."""
    sample: int
    """Questions, drawn from those that all models answered."""
    workers: int = 32
    on_judged: Callable[[str, int], None] = _nothing
    """Called after every judgement, with the model and how many there will be."""

    @property
    def name(self) -> str:
        """The judge's own."""
        return self.replicas[0].name


async def look_for_hacking(  # noqa: PLR0913  # each is a choice of its own
    root: Path,
    *,
    judge: str | None = None,
    second: str | None = None,
    baseline: str | None = None,
    tasks: Path | None = None,
    new_judge: NewJudge | None = None,
    out: Path | None = None,
    accept_edited: bool = False,
) -> tuple[HackingPanel, Path]:
    """Look for signs of judge hacking in a held-out evaluation, and write what is found.

    Args:
        root: folder of a finished held-out evaluation.
        judge: whose reward is looked into; by default the evaluation's first judge.
        second: asked whether it sees the same gain; by default another judge of the evaluation.
        baseline: what the other models are set against; by default the first.
        tasks: file of the tasks, for echoes of their criteria and for a new judge.
        new_judge: asked in place of a judge of the evaluation.
        out: file for it; by default hacking.json in the folder.
        accept_edited: go on where files were edited, and say so in `HackingPanel.edited`.

    Returns:
        The panel, and where it is.

    Raises:
        EvalFolderError: no finished held-out evaluation, or a judge that it does not have.
        EvalEditedError: files were edited.
        ConfigError: a new judge without the tasks that were evaluated.
        JudgeSetupError: the new judge is not there.
        HeldoutAbortError: the new judge leaves too much open.
        ComparisonError, EvalShapeError: no such baseline, or a model without a judged answer.
        RubricFileError: a file that is damaged.
        OSError: a file cannot be read or written.
    """
    folder = EvalFolder(root)
    target = out or folder.hacking
    with refusing_edits(is_accepted=accept_edited) as edits:
        run = read_finished_run(folder, edits=edits)
        first, other = _judges(folder, run, judge, second)
        wanted = [first] if new_judge is not None or other is None else [first, other]
        files = [*evaluation_files(folder), *([tasks] if tasks else [])]
        inputs = hashed_inputs(files, beside=target)
        judged = _judged(folder, run, wanted, edits)
    other = other if new_judge is None else new_judge.name
    settings = HackingSettings(judge=first, second=other, baseline=baseline)
    panel = await _panel(folder, judged, settings, tasks, new_judge)
    found = sealed(
        panel.model_copy(
            update={
                "notes": (*panel.notes, *edits.notes),
                "folder": path_from(target, to=root),
                "inputs": inputs,
                "edited": edits.found,
            }
        )
    )
    write_json(target, found)
    return found, target


async def _panel(
    folder: EvalFolder,
    judged: Mapping[str, Mapping[str, Judged]],
    settings: HackingSettings,
    tasks: Path | None,
    new_judge: NewJudge | None,
) -> HackingPanel:
    """Look at answers by judge and model, and at what a second judge gave them."""
    by_first = judged[settings.judge]
    answers = {model: one.answers for model, one in by_first.items()}
    baseline_of(answers, settings)
    by_id = {task.task_id: task for task in read_tasks(tasks)} if tasks else {}
    if new_judge is not None:
        rewards = await _judged_anew(folder, new_judge, by_id, answers, seed=settings.seed)
    else:
        by_second = judged.get(settings.second or "", {})
        rewards = {model: one.rewards for model, one in by_second.items()}
    return hacking_panel(
        answers,
        settings,
        tasks=_asked(by_id, answers),
        second=rewards,
        unjudged={model: one.unjudged for model, one in by_first.items()},
    )


async def _judged_anew(
    folder: EvalFolder,
    judge: NewJudge,
    tasks: Mapping[str, Task],
    answers: Mapping[str, Sequence[Observed]],
    *,
    seed: int,
) -> dict[str, dict[Key, float | None]]:
    """Let a new judge judge its sample, once it is known that it can."""
    questions = sampled_questions(answers, sample=judge.sample, seed=seed)
    check_tasks(tasks, questions)
    await JudgePool(judge.replicas).check()
    with Ledger(folder.ledger) as ledger:
        pool = JudgePool(judge.replicas, workers=judge.workers, ledger=ledger)
        return await judge_again(pool, tasks, answers, questions, on_judged=judge.on_judged)


def _judges(
    folder: EvalFolder, run: EvalRun, judge: str | None, second: str | None
) -> tuple[str, str | None]:
    """Choose among the evaluation's judges."""
    names = [one.name for one in run.judges]
    if run.kind != "heldout" or not names:
        raise EvalFolderError(
            f"{folder.root} is a {run.kind} evaluation without a judge; name the folder of a "
            "held-out one"
        )
    for name in (judge, second):
        if name is not None and name not in names:
            raise EvalFolderError(
                f"{folder.root} has no judge {name!r}, it has {', '.join(names)}; add one with "
                "`rubric-eval rejudge`"
            )
    first = judge or next((name for name in names if name != second), names[0])
    if first == second:
        raise EvalFolderError(f"{first!r} is both judges; name another one as the second")
    return first, second or next((name for name in names if name != first), None)


def _judged(
    folder: EvalFolder, run: EvalRun, judges: Sequence[str], edits: Edits
) -> dict[str, dict[str, Judged]]:
    """What judges gave the models that they have judged, in the order of the run."""
    check_files(folder, run, edits)
    reader = JudgedReader(folder, run, edits)
    entries = [entry for entry in run.judges if entry.name in judges]
    found: dict[str, dict[str, Judged]] = {name: {} for name in judges}
    for model in run.models:
        for judged in reader.read(model, entries):
            found[judged.judge.name][model.name] = observed(judged, run.seeds)
    if lacking := [name for name, models in found.items() if not models]:
        raise EvalFolderError(
            f"{folder.root} holds no score of {lacking[0]!r}; judge the answers with "
            "`rubric-eval rejudge`"
        )
    return found


def _asked(tasks: Mapping[str, Task], answers: Mapping[str, Sequence[Observed]]) -> list[Task]:
    """Tasks that were evaluated, of a file that may hold more."""
    asked = {one.task_id for of in answers.values() for one in of}
    return [task for name, task in tasks.items() if name in asked]
