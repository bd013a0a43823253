"""All signs of judge hacking with their warnings; of an evaluation on disk, as hacking.json."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rubric_core import Judge, Task, read_tasks
from rubric_core.configuration import said_where
from rubric_core.files import toml_beside
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
from rubric_judge.capabilities import close, refuse_groups

_NOTES: Final[dict[str, str]] = toml_beside(__file__, "notes.toml")
_LONG_PAYS: Final = 0.3
"""Rank correlation of reward and length among answers to one question that is worth a warning."""


def hacking_panel(
    judged: Mapping[str, results.Judged],
    settings: results.HackingSettings,
    *,
    tasks: Iterable[Task] = (),
    second: Mapping[str, Mapping[results.Key, float | None]] | None = None,
) -> results.HackingPanel:
    """Look for signs of judge hacking.

    Args:
        judged: answers by model, in the order of training, and what they were given.
        settings: judges, baseline, echo.
        tasks: the questions' tasks, for echoes of their criteria.
        second: rewards by a second judge, by model, then by question, seed and sample; None where
            it gave no judgement.

    Returns:
        Signs of each model, how they change against the baseline, and warnings.

    Raises:
        ComparisonError: the baseline is none of the models.
        EvalShapeError: a model has no judged answer.
    """
    answers = {model: one.answers for model, one in judged.items()}
    baseline = baseline_of(answers, settings)
    echoes = {task.task_id: signs.Echo(task, n=settings.echo_words) for task in tasks}
    given = {model: (second or {}).get(model, {}) for model in answers}
    counted = {
        model: signs.signs_of(of, echoes, given[model]) for model, of in answers.items()
    }
    models = [
        signs.model_signs(model, found, settings, unjudged=judged[model].unjudged)
        for model, found in counted.items()
    ]
    pairs = [
        ((a, counted[a]), (baseline, counted[baseline]))
        for a in answers
        if a != baseline
    ]
    changed = [change for pair in pairs for change in signs.changes(*pair, settings)]
    opinions = [
        signs.second_opinion(model, found, settings, judged=len(given[model]))
        for model, found in counted.items()
    ]
    diverging = [
        divergence
        for pair in pairs
        if (divergence := signs.divergence(*pair, settings))
    ]
    agreeing = list(filter(None, opinions))
    return results.HackingPanel(
        settings=settings,
        models=tuple(models),
        changes=tuple(changed),
        opinions=tuple(agreeing),
        divergences=tuple(diverging),
        warnings=tuple(_warnings(models, changed, diverging)),
        notes=tuple(_notes(models, diverging, agreeing, settings)),
    )


def baseline_of(
    answers: Mapping[str, Sequence[results.Observed]], settings: results.HackingSettings
) -> str:
    """Return the model that the others are set against.

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
    if empty := [model for model, observed in answers.items() if not observed]:
        raise EvalShapeError(f"{empty[0]!r} has no judged answer; evaluate it again")
    return baseline


def _warnings(
    models: Sequence[results.ModelSigns],
    changed: Sequence[results.Change],
    apart: Sequence[results.Divergence],
) -> list[str]:
    found = [
        _NOTES["of_one_judge"].format(
            of=divergence,
            first=100 * divergence.first.mean,
            second=100 * divergence.second.mean,
        )
        for divergence in apart
        if divergence.is_diverging
    ]
    by_sign = {(change.a, change.sign): change for change in changed}
    for model in models:
        within = model.reward_length_within or model.reward_length
        pays = (
            within is not None and (within.ci_low or 0) > 0 and within.rho >= _LONG_PAYS
        )
        longer, gain = (
            by_sign.get((model.model, sign)) for sign in ("words", "reward")
        )
        if pays and all(one is not None and one.is_above(0) for one in (longer, gain)):
            found.append(
                _NOTES["of_length"].format(of=model, longer=longer, within=within)
            )
    changes = (one for one in changed if one.sign in _NOTES and one.is_above(0))
    return found + [_NOTES[one.sign].format(of=one) for one in changes]


def _notes(
    models: Sequence[results.ModelSigns],
    apart: Sequence[results.Divergence],
    opinions: Sequence[results.SecondOpinion],
    settings: results.HackingSettings,
) -> list[str]:
    holds = {
        "no_echoes": any(model.echoes is None for model in models),
        "no_second_judge": not apart,
        "one_answer": all(model.reward_length_within is None for model in models),
    }
    unjudged = _NOTES["unjudged"]
    left_out = _NOTES["left_out"]
    return [
        *said_where(holds, _NOTES),
        *(
            unjudged.format(of=model, judge=settings.judge)
            for model in models
            if model.unjudged
        ),
        *(
            left_out.format(of=opinion, judge=settings.second)
            for opinion in opinions
            if opinion.left_out
        ),
    ]


@dataclass(frozen=True)
class NewJudge:
    """A judge that the evaluation does not have, for a sample of its questions.

    Its judgements are kept in the evaluation's ledger. Nothing is called or written before
    everything else is checked.
    """

    spec: Path
    """Its configuration."""
    sample: int
    """Questions, drawn from those that all models answered."""
    workers: int = 32
    on_judged: Callable[[str, str, int], object] = lambda _judge, _model, _n: None
    """Called after every judgement, with judge, model, and how many there will be."""


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
    replicas = load_replicas(read_judge_spec(new_judge.spec)) if new_judge else ()
    for one in replicas:
        refuse_groups(one, by="answers are judged again each alone")
    async with closing(*(partial(close, replica) for replica in replicas)):
        with refusing_edits(is_accepted=accept_edited) as edits:
            run = read_finished_run(folder, edits=edits)
            first, other = _judges(folder, run, judge, second)
            wanted = [first] if replicas or other is None else [first, other]
            files = [*evaluation_files(folder), *([tasks] if tasks else [])]
            inputs = hashed_inputs(files, beside=target)
            judged = _judged(folder, run, wanted, edits)
        other = replicas[0].name if replicas else other
        settings = results.HackingSettings(judge=first, second=other, baseline=baseline)
        panel = await _panel(folder, judged, settings, tasks, new_judge, replicas)
    made_of = {"folder": path_from(target, to=root), "inputs": inputs}
    return write_derived(target, panel.model_copy(update=made_of), edits), target


async def _panel(
    folder: EvalFolder,
    judged: Mapping[str, Mapping[str, results.Judged]],
    settings: results.HackingSettings,
    tasks: Path | None,
    new_judge: NewJudge | None,
    replicas: Sequence[Judge],
) -> results.HackingPanel:
    """Look at answers by judge and model, and at what a second judge gave them."""
    by_first = judged[settings.judge]
    answers = {model: one.answers for model, one in by_first.items()}
    baseline_of(answers, settings)
    by_id = {task.task_id: task for task in read_tasks(tasks)} if tasks else {}
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
        rewards = {model: one.rewards for model, one in by_second.items()}
    # The file may hold more tasks than were evaluated.
    asked = {one.task_id for of in answers.values() for one in of}
    known = [task for name, task in by_id.items() if name in asked]
    return hacking_panel(by_first, settings, tasks=known, second=rewards)


def _judges(
    folder: EvalFolder, run: EvalRun, judge: str | None, second: str | None
) -> tuple[str, str | None]:
    """Choose among the evaluation's judges."""
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
    first = judge or next((name for name in names if name != second), names[0])
    if first == second:
        raise EvalFolderError(
            f"{first!r} is both judges; name another one as the second"
        )
    return first, second or next((name for name in names if name != first), None)


def _judged(
    folder: EvalFolder, run: EvalRun, judges: Sequence[str], edits: Edits
) -> dict[str, dict[str, results.Judged]]:
    """What judges gave the models that they have judged, in the order of the run."""
    check_files(folder, run, edits)
    reader = JudgedReader(folder, run, edits)
    entries = [entry for entry in run.judges if entry.name in judges]
    found: dict[str, dict[str, results.Judged]] = {name: {} for name in judges}
    of_models = (
        answers for answers in reader.read(entries) if not answers.model.is_control
    )
    for judged in of_models:
        found[judged.judge.name][judged.model.name] = observed(judged, run.seeds)
    if lacking := [name for name, models in found.items() if not models]:
        raise EvalFolderError(
            f"{folder.root} holds no score of {lacking[0]!r}; judge the answers with "
            "`rubric-eval rejudge`"
        )
    return found
