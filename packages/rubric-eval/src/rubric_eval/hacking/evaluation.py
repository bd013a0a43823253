"""Signs of judge hacking in an evaluation on disk, as hacking.json; a new judge for a sample."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rubric_core import Answer, Judge, JudgeResult, Task, read_tasks
from rubric_eval.errors import (
    EvalConfigError,
    EvalFolderError,
    HeldoutAbortError,
    unavailable,
)
from rubric_eval.hacking.panel import baseline_of, hacking_panel
from rubric_eval.hacking.results import (
    HackingPanel,
    HackingSettings,
    Judged,
    Key,
    Observed,
    observed,
)
from rubric_eval.records.digests import Edits, check_files, refusing_edits
from rubric_eval.records.files import read_finished_run, write_derived
from rubric_eval.records.inputs import (
    EvalFolder,
    evaluation_files,
    hashed_inputs,
    path_from,
)
from rubric_eval.records.joining import closing
from rubric_eval.records.run import EvalRun, reward_of
from rubric_eval.scores.judged import JudgedReader
from rubric_judge import JudgePool, Ledger, load_replicas, read_judge_spec
from rubric_judge.judges.capabilities import close, refuse_groups


@dataclass(frozen=True)
class NewJudge:
    """A judge that the evaluation does not have, for a sample of its questions.

    Its judgements are kept in the evaluation's ledger. Nothing is called or written before
    everything else is checked.
    """

    spec: Path
    """Path of the judge's configuration."""
    sample: int
    """Number of questions, drawn from those that all models answered."""
    workers: int = 32
    on_judged: Callable[[str, str, int], object] = lambda _judge, _model, _n: None
    """Called after every judgement, with judge, model, and the number of all judgements."""


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
    """Look for signs of judge hacking in a held-out evaluation, and write the results.

    Args:
        root: folder of a finished held-out evaluation.
        judge: the judge whose rewards are examined; by default the evaluation's first judge.
        second: a judge that may see the same gain; by default another judge of the evaluation.
        baseline: the model that the others are compared with; by default the first.
        tasks: file of the tasks, for echoes of their criteria and for a new judge.
        new_judge: a second judge in place of one of the evaluation.
        out: file for the panel; by default hacking.json in the folder.
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
    replicas: tuple[Judge, ...] = ()
    if new_judge is not None:
        replicas = load_replicas(read_judge_spec(new_judge.spec))
    for replica in replicas:
        refuse_groups(replica, by="answers are judged again each alone")
    async with closing(*(partial(close, replica) for replica in replicas)):
        with refusing_edits(is_accepted=accept_edited) as edits:
            run = read_finished_run(folder, edits=edits)
            judge, second = _judges(folder, run, judge, second)
            names = [judge]
            if second is not None and not replicas:
                names.append(second)
            files = evaluation_files(folder)
            if tasks:
                files.append(tasks)
            inputs = hashed_inputs(files, beside=target)
            judged = _judged(folder, run, names, edits)
        if replicas:
            second = replicas[0].name
        settings = HackingSettings(judge=judge, second=second, baseline=baseline)
        panel = await _panel(folder, judged, settings, tasks, new_judge, replicas)
    sources = {"folder": path_from(target, to=root), "inputs": inputs}
    return write_derived(target, panel.model_copy(update=sources), edits), target


async def _panel(
    folder: EvalFolder,
    judged: Mapping[str, Mapping[str, Judged]],
    settings: HackingSettings,
    tasks: Path | None,
    new_judge: NewJudge | None,
    replicas: Sequence[Judge],
) -> HackingPanel:
    """Return the panel of answers with their rewards, by judge and model."""
    by_first = judged[settings.judge]
    answers = {model: of_model.answers for model, of_model in by_first.items()}
    baseline_of(answers, settings)
    by_id: dict[str, Task] = {}
    if tasks:
        by_id = {task.task_id: task for task in read_tasks(tasks)}
    if new_judge is not None:
        questions = sampled_questions(
            answers, sample=new_judge.sample, seed=settings.seed
        )
        check_tasks(by_id, questions)
        await JudgePool(replicas).check()
        tell = partial(new_judge.on_judged, replicas[0].name)
        with Ledger(folder.ledger) as ledger:
            pool = JudgePool(replicas, workers=new_judge.workers, ledger=ledger)
            rewards = await judge_again(pool, by_id, answers, questions, on_judged=tell)
    else:
        by_second = judged.get(settings.second or "", {})
        rewards = {model: of_model.rewards for model, of_model in by_second.items()}
    # The file may hold more tasks than were evaluated.
    evaluated = {answer.task_id for of_model in answers.values() for answer in of_model}
    known = [task for name, task in by_id.items() if name in evaluated]
    return hacking_panel(by_first, settings, tasks=known, second=rewards)


def _judges(
    folder: EvalFolder, run: EvalRun, judge: str | None, second: str | None
) -> tuple[str, str | None]:
    """Return the judge to examine and the second one, of the evaluation's judges."""
    names = [entry.name for entry in run.judges]
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
    if judge is None:
        judge = _first_other(names, second) or names[0]
    if judge == second:
        raise EvalFolderError(
            f"{judge!r} is both judges; name another one as the second"
        )
    return judge, second or _first_other(names, judge)


def _first_other(names: Sequence[str], excluded: str | None) -> str | None:
    for name in names:
        if name != excluded:
            return name
    return None


def _judged(
    folder: EvalFolder, run: EvalRun, judges: Sequence[str], edits: Edits
) -> dict[str, dict[str, Judged]]:
    """Return the judged answers of each judge by model, in the order of the run."""
    check_files(folder, run, edits)
    reader = JudgedReader(folder, run, edits)
    entries = [entry for entry in run.judges if entry.name in judges]
    by_judge: dict[str, dict[str, Judged]] = {name: {} for name in judges}
    for judged in reader.read(entries):
        if not judged.model.is_control:
            by_judge[judged.judge.name][judged.model.name] = observed(judged, run.seeds)
    for name, models in by_judge.items():
        if not models:
            raise EvalFolderError(
                f"{folder.root} holds no score of {name!r}; judge the answers with "
                "`rubric-eval rejudge`"
            )
    return by_judge


def sampled_questions(
    answers: Mapping[str, Sequence[Observed]], *, sample: int, seed: int
) -> list[str]:
    """Draw questions that every model answered, so that gains can be paired."""
    counts = Counter[str]()
    for of_model in answers.values():
        counts.update({answer.task_id for answer in of_model})
    ordered = sorted(name for name, count in counts.items() if count == len(answers))
    return sorted(random.Random(seed).sample(ordered, min(sample, len(ordered))))


def check_tasks(tasks: Mapping[str, Task], questions: Sequence[str]) -> None:
    """Refuse questions without a known task.

    Raises:
        ConfigError: a question is not among the tasks.
    """
    missing = [name for name in questions if name not in tasks]
    if missing:
        raise EvalConfigError(
            f"--tasks: {len(missing)} of {len(questions)} questions are not among the tasks, "
            f"first {missing[0]!r}; name the file that was evaluated",
            location="tasks",
        )


async def judge_again(
    pool: JudgePool,
    tasks: Mapping[str, Task],
    answers: Mapping[str, Sequence[Observed]],
    questions: Sequence[str],
    *,
    max_unavailable_frac: float = 0.05,
    on_judged: Callable[[str, int], object] = lambda _model, _n: None,
) -> dict[str, dict[Key, float | None]]:
    """Let another judge score every answer to some questions.

    Args:
        pool: the judge.
        tasks: tasks by id.
        answers: answers by model.
        questions: task ids of the questions.
        max_unavailable_frac: largest share of each model's answers that may lack a judgement.
        on_judged: called after every judgement, with the model and the number of its judgements.

    Returns:
        Rewards by model; None for answers that could not be judged.

    Raises:
        ConfigError: a question is not among the tasks.
        HeldoutAbortError: too many answers of a model got no judgement.
    """
    check_tasks(tasks, questions)
    chosen_ids = set(questions)
    rewards: dict[str, dict[Key, float | None]] = {}
    for model, of_model in answers.items():
        chosen = [answer for answer in of_model if answer.task_id in chosen_ids]

        def tell(
            _: int, __: JudgeResult, model: str = model, total: int = len(chosen)
        ) -> None:
            on_judged(model, total)

        views = [
            tasks[answer.task_id].judge_view(Answer(answer.text)) for answer in chosen
        ]
        judged = await pool.judge_all(views, on_result=tell)
        failed = unavailable(judged)
        if failed.exceed(max_unavailable_frac, of=len(judged)):
            raise HeldoutAbortError(
                f"the second judge gave no judgement for {failed.total} of {len(judged)} answers "
                f"of {model!r}: {failed}. At most {100 * max_unavailable_frac:g} % may lack one: "
                "see to the judge, and run the same command again; what is judged is in the "
                "evaluation's ledger, and is not judged again",
                unavailable_frac=failed.share(len(judged)),
                reasons=failed.by_reason,
            )
        rewards[model] = {
            answer.key: reward_of(result, tasks[answer.task_id].rubric)
            for answer, result in zip(chosen, judged, strict=True)
        }
    return rewards
