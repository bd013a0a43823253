"""The same answers by a judge that was not trained on."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from rubric_core import ConfigError, JudgeResult, Task
from rubric_eval.errors import EvalShapeError, HeldoutAbortError, unavailable
from rubric_eval.hacking import results
from rubric_eval.scores.scoring import reward_of
from rubric_eval.statistics import mean_interval, paired_interval
from rubric_judge import JudgePool

_Rewards = Mapping[results.Key, float | None]
"""By a second judge; None where it gave no judgement."""


def sampled_questions(
    answers: Mapping[str, Sequence[results.Observed]], *, sample: int, seed: int
) -> list[str]:
    """Draw questions that every model answered, so that gains can be paired."""
    counts = Counter(name for of in answers.values() for name in {one.task_id for one in of})
    ordered = sorted(name for name, count in counts.items() if count == len(answers))
    return sorted(random.Random(seed).sample(ordered, min(sample, len(ordered))))


def check_tasks(tasks: Mapping[str, Task], questions: Sequence[str]) -> None:
    """Refuse to ask about questions whose tasks are not known.

    Raises:
        ConfigError: a question is not among the tasks.
    """
    if missing := [name for name in questions if name not in tasks]:
        raise ConfigError(
            f"--tasks: {len(missing)} of {len(questions)} questions are not among the tasks, first "
            f"{missing[0]!r}; name the file that was evaluated",
            location="tasks",
        )


async def judge_again(
    pool: JudgePool,
    tasks: Mapping[str, Task],
    answers: Mapping[str, Sequence[results.Observed]],
    questions: Sequence[str],
    *,
    max_unavailable_frac: float = 0.05,
    on_judged: Callable[[str, int], None] | None = None,
) -> dict[str, dict[results.Key, float | None]]:
    """Let another judge score every answer to some questions.

    Args:
        pool: the judge.
        tasks: by id.
        answers: by model.
        questions: their task ids.
        max_unavailable_frac: of each model's answers; beyond it nothing is said.
        on_judged: called after every judgement, with the model and how many it will be.

    Returns:
        Rewards by model; None for what could not be judged.

    Raises:
        ConfigError: a question is not among the tasks.
        HeldoutAbortError: too many answers of a model got no judgement.
    """
    check_tasks(tasks, questions)
    wanted = set(questions)
    found: dict[str, dict[results.Key, float | None]] = {}
    for model, observed in answers.items():
        chosen = [one for one in observed if one.task_id in wanted]

        def tell(_: int, __: JudgeResult, model: str = model, total: int = len(chosen)) -> None:
            if on_judged is not None:
                on_judged(model, total)

        views = [tasks[one.task_id].judge_view(one.text) for one in chosen]
        results = await pool.judge_all(views, on_result=tell)
        _check_reached(model, results, max_unavailable_frac)
        found[model] = {
            one.key: reward_of(result, tasks[one.task_id].rubric)
            for one, result in zip(chosen, results, strict=True)
        }
    return found


def _check_reached(model: str, results: Sequence[JudgeResult], allowed: float) -> None:
    failed = unavailable(results)
    lost = failed.total / max(len(results), 1)
    if lost > allowed or failed.total == len(results):
        raise HeldoutAbortError(
            f"the second judge gave no judgement for {failed.total} of {len(results)} answers of "
            f"{model!r}: {failed}. At most {100 * allowed:g} % may lack one: see to the judge, and "
            "run the same command again; what is judged is in the evaluation's ledger, and is not "
            "judged again",
            unavailable_frac=lost,
            reasons=failed.by_reason,
        )


def second_opinion(
    model: str,
    observed: Sequence[results.Observed],
    second: _Rewards,
    settings: results.HackingSettings,
) -> results.SecondOpinion | None:
    """Set two judges' rewards of one model side by side; None where they share no answer."""
    both = [(one, reward) for one in observed if (reward := second.get(one.key)) is not None]
    if not both:
        return None
    first_N, second_N = [one.reward for one, _ in both], [reward for _, reward in both]
    return results.SecondOpinion(
        model=model,
        n=len(both),
        left_out=len(second) - len(both),
        first_mean=sum(first_N) / len(both),
        second_mean=sum(second_N) / len(both),
        agreement=results.rank_correlation(
            first_N, second_N, [one.doc_hash for one, _ in both], **settings.draws
        ),
    )


def divergence(
    a: tuple[str, Sequence[results.Observed], _Rewards],
    b: tuple[str, Sequence[results.Observed], _Rewards],
    settings: results.HackingSettings,
) -> results.Divergence | None:
    """Ask whether the second judge sees the gain a − b too; None where they share no question."""
    documents: dict[str, str] = {}
    first_a, second_a = _question_means(a[1], a[2], documents)
    first_b, second_b = _question_means(b[1], b[2], documents)
    both = [name for name in first_a if name in first_b]
    gains = [
        [of_a[name] - of_b[name] for name in both]
        for of_a, of_b in ((first_a, first_b), (second_a, second_b))
    ]
    clusters = [documents[name] for name in both]
    try:
        first, second = (
            mean_interval(gain, clusters_N=clusters, **settings.draws) for gain in gains
        )
        apart = paired_interval(*gains, clusters_N=clusters, **settings.draws)
    except EvalShapeError:
        return None
    return results.Divergence(
        **apart.model_dump(),
        a=a[0],
        b=b[0],
        first=first,
        second=second,
        is_diverging=first.is_above(0) and apart.is_above(0),
    )


def _question_means(
    observed: Sequence[results.Observed], second: _Rewards, documents: dict[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Mean over a question's answers by either judge, of the answers that both judged."""
    by_question: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in observed:
        if (reward := second.get(one.key)) is not None:
            by_question[one.task_id].append((one.reward, reward))
            documents[one.task_id] = one.doc_hash
    by_first, by_second = (
        {name: sum(pair[at] for pair in pairs) / len(pairs) for name, pairs in by_question.items()}
        for at in (0, 1)
    )
    return by_first, by_second
