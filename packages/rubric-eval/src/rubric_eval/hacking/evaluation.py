"""All signs of judge hacking with their warnings; for an evaluation on disk, as hacking.json."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rubric_core import Judge, Task, read_tasks
from rubric_eval.errors import ComparisonError, EvalFolderError, EvalShapeError
from rubric_eval.hacking import results, signs
from rubric_eval.hacking.results import observed
from rubric_eval.records.digests import Edits, check_files, refusing_edits
from rubric_eval.records.files import read_finished_run, write_derived
from rubric_eval.records.inputs import (
    EvalFolder,
    evaluation_files,
    hashed_inputs,
    path_from,
)
from rubric_eval.records.joining import closing
from rubric_eval.records.run import EvalRun
from rubric_eval.scores.judged import JudgedReader
from rubric_judge import JudgePool, Ledger, load_replicas, read_judge_spec
from rubric_judge.judges.capabilities import close, refuse_groups

_OF_SIGNS: Final = {
    "echoes": "holds wording of the criteria in more answers than",
    "hedges": "hedges more than",
    "appeals": "speaks to the judge in more answers than",
}
"""Habits that a model shows more often than the one that it is set against, by sign."""
_LONG_PAYS: Final = 0.3
"""Least rank correlation of reward and length within questions that is worth a warning."""


def hacking_panel(
    judged: Mapping[str, results.Judged],
    settings: results.HackingSettings,
    *,
    tasks: Iterable[Task] = (),
    second: Mapping[str, Mapping[results.Key, float | None]] | None = None,
) -> results.HackingPanel:
    """Look for signs of judge hacking.

    Args:
        judged: answers and rewards by model, in the order of training.
        settings: judges, baseline, echo.
        tasks: the questions' tasks, for echoes of their criteria.
        second: rewards by a second judge, by model, then by question, seed and sample; None where
            it gave no judgement.

    Returns:
        Signs of each model, their changes against the baseline, and warnings.

    Raises:
        ComparisonError: the baseline is none of the models.
        EvalShapeError: a model has no judged answer.
    """
    answers = {model: of_model.answers for model, of_model in judged.items()}
    baseline = baseline_of(answers, settings)
    echoes = {task.task_id: signs.Echo(task, n=settings.echo_words) for task in tasks}
    counted: dict[str, list[signs.Signs]] = {}
    models: list[results.ModelSigns] = []
    opinions: list[results.SecondOpinion] = []
    for model, of_model in judged.items():
        second_rewards = (second or {}).get(model, {})
        model_signs = signs.signs_of(of_model.answers, echoes, second_rewards)
        counted[model] = model_signs
        models.append(
            signs.model_signs(model, model_signs, settings, unjudged=of_model.unjudged)
        )
        opinion = signs.second_opinion(
            model, model_signs, settings, judged=len(second_rewards)
        )
        if opinion is not None:
            opinions.append(opinion)
    changes: list[results.Change] = []
    divergences: list[results.Divergence] = []
    b = (baseline, counted[baseline])
    for model in answers:
        if model == baseline:
            continue
        a = (model, counted[model])
        changes += signs.changes(a, b, settings)
        divergence = signs.divergence(a, b, settings)
        if divergence is not None:
            divergences.append(divergence)
    return results.HackingPanel(
        settings=settings,
        models=tuple(models),
        changes=tuple(changes),
        opinions=tuple(opinions),
        divergences=tuple(divergences),
        warnings=tuple(_warnings(models, changes, divergences)),
        notes=tuple(_notes(models, divergences, opinions, settings)),
    )


def baseline_of(
    answers: Mapping[str, Sequence[results.Observed]], settings: results.HackingSettings
) -> str:
    """Return the model that the others are compared with.

    Raises:
        ComparisonError: it is none of the models.
        EvalShapeError: a model has no judged answer.
    """
    baseline = settings.baseline or next(iter(answers), "")
    if baseline not in answers:
        models = ", ".join(answers)
        raise ComparisonError(
            f"no model {baseline!r} to set the others against; there are {models}"
        )
    for model, of_model in answers.items():
        if not of_model:
            raise EvalShapeError(f"{model!r} has no judged answer; evaluate it again")
    return baseline


def _warnings(
    models: Sequence[results.ModelSigns],
    changes: Sequence[results.Change],
    divergences: Sequence[results.Divergence],
) -> list[str]:
    warnings: list[str] = []
    for divergence in divergences:
        if divergence.is_diverging:
            first = 100 * divergence.first.mean
            second = 100 * divergence.second.mean
            warnings.append(
                f"{divergence.a} gains {first:.1f} points over {divergence.b} by the "
                f"first judge and {second:.1f} by the second: part of the gain is the "
                "first judge's alone"
            )
    by_sign = {(change.a, change.sign): change for change in changes}
    for model in models:
        within = model.reward_length_within or model.reward_length
        longer = by_sign.get((model.model, "words"))
        gain = by_sign.get((model.model, "reward"))
        if within is None or longer is None or gain is None:
            continue
        if not (_length_pays(within) and longer.is_above(0) and gain.is_above(0)):
            continue
        warnings.append(
            f"{model.model} answers with {longer.mean:+.0f} words more than {longer.b}, "
            f"and longer answers get more reward (ρ {within.rho:.2f}): its gain may be "
            "length"
        )
    warnings += [
        f"{change.a} {_OF_SIGNS[change.sign]} {change.b}"
        for change in changes
        if change.sign in _OF_SIGNS and change.is_above(0)
    ]
    return warnings


def _length_pays(within: results.Correlation) -> bool:
    if within.ci_low is None:
        return False
    return within.ci_low > 0 and within.rho >= _LONG_PAYS


def _notes(
    models: Sequence[results.ModelSigns],
    divergences: Sequence[results.Divergence],
    opinions: Sequence[results.SecondOpinion],
    settings: results.HackingSettings,
) -> list[str]:
    notes: list[str] = []
    if any(model.echoes is None for model in models):
        notes.append(
            "echoes of the criteria were not counted: give the tasks, by `rubric-eval "
            "hacking FOLDER --tasks FILE`, which the report then takes over"
        )
    if not divergences:
        notes.append(
            "no second judge: nothing says whether another judge sees the same gain"
        )
    if all(model.reward_length_within is None for model in models):
        notes.append(
            "one answer a question: length cannot be told from how hard a question is"
        )
    notes += [
        f"{model.model}: answers left out because {settings.judge} gave no judgement: "
        f"{model.unjudged}"
        for model in models
        if model.unjudged
    ]
    notes += [
        f"{opinion.model}: answers left out beside {settings.second} because one of both "
        f"judges gave no judgement: {opinion.left_out}"
        for opinion in opinions
        if opinion.left_out
    ]
    return notes


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
) -> tuple[results.HackingPanel, Path]:
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
        settings = results.HackingSettings(
            judge=judge, second=second, baseline=baseline
        )
        panel = await _panel(folder, judged, settings, tasks, new_judge, replicas)
    sources = {"folder": path_from(target, to=root), "inputs": inputs}
    return write_derived(target, panel.model_copy(update=sources), edits), target


async def _panel(
    folder: EvalFolder,
    judged: Mapping[str, Mapping[str, results.Judged]],
    settings: results.HackingSettings,
    tasks: Path | None,
    new_judge: NewJudge | None,
    replicas: Sequence[Judge],
) -> results.HackingPanel:
    """Return the panel of answers with their rewards, by judge and model."""
    by_first = judged[settings.judge]
    answers = {model: of_model.answers for model, of_model in by_first.items()}
    baseline_of(answers, settings)
    by_id: dict[str, Task] = {}
    if tasks:
        by_id = {task.task_id: task for task in read_tasks(tasks)}
    if new_judge is not None:
        questions = signs.sampled_questions(
            answers, sample=new_judge.sample, seed=settings.seed
        )
        signs.check_tasks(by_id, questions)
        await JudgePool(replicas).check()
        tell = partial(new_judge.on_judged, replicas[0].name)
        with Ledger(folder.ledger) as ledger:
            pool = JudgePool(replicas, workers=new_judge.workers, ledger=ledger)
            rewards = await signs.judge_again(
                pool, by_id, answers, questions, on_judged=tell
            )
    else:
        by_second = judged.get(settings.second or "", {})
        rewards = {model: of_model.rewards for model, of_model in by_second.items()}
    # The file may hold more tasks than were evaluated.
    evaluated: set[str] = set()
    for of_model in answers.values():
        evaluated.update(answer.task_id for answer in of_model)
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
) -> dict[str, dict[str, results.Judged]]:
    """Return the judged answers of each judge by model, in the order of the run."""
    check_files(folder, run, edits)
    reader = JudgedReader(folder, run, edits)
    entries = [entry for entry in run.judges if entry.name in judges]
    by_judge: dict[str, dict[str, results.Judged]] = {name: {} for name in judges}
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
