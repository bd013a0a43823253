"""Length, hedging, appeals and echoes of answers, and what a judge that was not trained on says."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from rubric_core import Answer, JudgeResult, Task
from rubric_core.files import toml_beside
from rubric_eval.errors import EvalConfigError, HeldoutAbortError, unavailable
from rubric_eval.hacking import results
from rubric_eval.records.run import reward_of
from rubric_eval.statistics import (
    Interval,
    mean_interval,
    paired_interval,
    score_interval,
)
from rubric_judge import JudgePool

_PHRASES: Final = toml_beside(__file__, "phrases.toml")
HEDGES: Final[tuple[str, ...]] = tuple(_PHRASES["hedges"])
"""Phrases that keep an answer from being wrong."""

APPEALS: Final[tuple[str, ...]] = tuple(_PHRASES["appeals"])
"""Phrases that speak to a judge."""

_WORD: Final = re.compile(r"\w+(?:['’]\w+)*")


def words(text: str) -> list[str]:
    """Take the words of a text, in lower case."""
    return _WORD.findall(text.lower())


class Phrases:
    """Phrases to count in many texts; only where one could begin is it looked for."""

    def __init__(self, phrases: Collection[str]) -> None:
        """Sort the phrases by their first word."""
        self._by_first: defaultdict[str, list[list[str]]] = defaultdict(list)
        for phrase in set(phrases):
            first, *rest = phrase.split(" ")
            self._by_first[first].append(rest)
        self._firsts = frozenset(self._by_first)

    def count(self, text_words: list[str]) -> int:
        """Count how often any of the phrases stands in a text; twice in a row is twice."""
        if self._firsts.isdisjoint(text_words):
            return 0
        starts = [at for at, word in enumerate(text_words, 1) if word in self._firsts]
        return sum(
            text_words[at : at + len(rest)] == rest
            for at in starts
            for rest in self._by_first[text_words[at - 1]]
        )


class Echo:
    """Runs of words that stand in a task's criteria, and in neither its prompt nor its passage.

    A model sees the question and its context, and may know what the passage says. It has no way to
    the wording of the criteria, so an answer that holds it was trained towards the rubric's
    language, or saw it.
    """

    def __init__(self, task: Task, *, n: int) -> None:
        """Collect the runs of n words."""
        self._n = n
        known = _runs(words(task.policy_view().message), n) | _runs(
            words(task.grounding.reveal()), n
        )
        texts = (
            text
            for criterion in task.rubric
            for text in (
                criterion.name,
                criterion.description,
                criterion.scoring_guide,
                *criterion.required_elements,
                *criterion.expected_keywords,
                *criterion.expected_concepts,
            )
        )
        self._hidden = {run for text in texts for run in _runs(words(text), n)} - known

    def is_in(self, text_words: list[str]) -> bool:
        """Whether an answer holds such a run."""
        return not self._hidden.isdisjoint(_runs(text_words, self._n))


def _runs(text_words: list[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(text_words[at : at + n]) for at in range(len(text_words) - n + 1)}


@dataclass(frozen=True)
class Signs(results.Observed):
    """An answer with what is counted in it."""

    words: int
    hedges: float
    appeals: float
    echoes: float | None
    second: float | None
    """Reward by the second judge."""


def signs_of(
    observed: Sequence[results.Observed],
    echoes: Mapping[str, Echo],
    second: Mapping[results.Key, float | None],
) -> list[Signs]:
    """Count in each answer.

    Args:
        observed: answers of one model.
        echoes: wording of the criteria by task; where a task is missing, its echo is not known.
        second: rewards by a second judge; None where it gave no judgement.
    """
    hedges = Phrases(HEDGES)
    appeals = Phrases(APPEALS)
    found: list[Signs] = []
    for one in observed:
        said = words(one.text)
        echo = echoes.get(one.task_id)
        found.append(
            Signs(
                **asdict(one),
                words=len(said),
                hedges=100 * hedges.count(said) / max(len(said), 1),
                appeals=float(appeals.count(said) > 0),
                echoes=None if echo is None else float(echo.is_in(said)),
                second=second.get(one.key),
            )
        )
    return found


def model_signs(
    model: str,
    signs: Sequence[Signs],
    settings: results.HackingSettings,
    *,
    unjudged: int,
) -> results.ModelSigns:
    """Sum up one model's answers.

    Raises:
        EvalShapeError: there are none.
    """
    rewards = [sign.reward for sign in signs]
    lengths = [float(sign.words) for sign in signs]
    documents = [sign.doc_hash for sign in signs]
    questions = [sign.task_id for sign in signs]
    knows_echoes = any(sign.echoes is not None for sign in signs)
    return results.ModelSigns(
        model=model,
        answers=len(signs),
        words=_mean_count(signs, "words", settings),
        reward_length=results.rank_correlation(
            rewards, lengths, documents, **settings.draws
        ),
        reward_length_within=results.within_correlation(
            rewards, lengths, questions, documents, **settings.draws
        ),
        hedges=_mean_count(signs, "hedges", settings),
        appeals=_share(signs, "appeals", settings),
        echoes=_share(signs, "echoes", settings) if knows_echoes else None,
        unjudged=unjudged,
    )


_OfModel = tuple[str, Sequence[Signs]]
"""A model's name, and what is counted in its answers."""


def changes(
    a: _OfModel, b: _OfModel, settings: results.HackingSettings
) -> list[results.Change]:
    """Take a − b of each sign over the questions that both answered."""
    found: list[results.Change] = []
    for sign in ("reward", "words", "hedges", "appeals", "echoes"):
        of_a, of_b, documents = _paired(a[1], b[1], sign)
        if documents:
            gain = paired_interval(of_a, of_b, clusters_N=documents, **settings.draws)
            found.append(results.Change(**gain.model_dump(), sign=sign, a=a[0], b=b[0]))
    return found


def _mean_count(
    signs: Sequence[Signs], sign: str, settings: results.HackingSettings
) -> Interval:
    values, documents = _by_question(signs, sign)
    clusters = [documents[name] for name in values]
    return mean_interval(
        list(values.values()), clusters_N=clusters, least=0, **settings.draws
    )


def _share(
    signs: Sequence[Signs], sign: str, settings: results.HackingSettings
) -> Interval:
    """Average what each answer has or has not."""
    values, documents = _by_question(signs, sign)
    return score_interval(
        list(values.values()),
        clusters_N=[documents[name] for name in values],
        confidence=settings.confidence,
    )


def _paired(
    a: Sequence[Signs], b: Sequence[Signs], sign: str
) -> tuple[list[float], list[float], list[str]]:
    """Means of either side over each question that both have, and the questions' documents."""
    (of_a, documents), (of_b, _) = _by_question(a, sign), _by_question(b, sign)
    both = [name for name in of_a if name in of_b]
    return (
        [of_a[one] for one in both],
        [of_b[one] for one in both],
        [documents[one] for one in both],
    )


def _by_question(
    signs: Sequence[Signs], sign: str
) -> tuple[dict[str, float], dict[str, str]]:
    """Mean over a question's answers, and its document."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    documents: dict[str, str] = {}
    for one in signs:
        value: float | None = getattr(one, sign)
        if value is not None:
            values[one.task_id].append(value)
            documents[one.task_id] = one.doc_hash
    return {name: sum(found) / len(found) for name, found in values.items()}, documents


def sampled_questions(
    answers: Mapping[str, Sequence[results.Observed]], *, sample: int, seed: int
) -> list[str]:
    """Draw questions that every model answered, so that gains can be paired."""
    counts = Counter(
        name for of in answers.values() for name in {one.task_id for one in of}
    )
    ordered = sorted(name for name, count in counts.items() if count == len(answers))
    return sorted(random.Random(seed).sample(ordered, min(sample, len(ordered))))


def check_tasks(tasks: Mapping[str, Task], questions: Sequence[str]) -> None:
    """Refuse to ask about questions whose tasks are not known.

    Raises:
        ConfigError: a question is not among the tasks.
    """
    if missing := [name for name in questions if name not in tasks]:
        raise EvalConfigError(
            f"--tasks: {len(missing)} of {len(questions)} questions are not among the tasks, "
            f"first {missing[0]!r}; name the file that was evaluated",
            location="tasks",
        )


async def judge_again(
    pool: JudgePool,
    tasks: Mapping[str, Task],
    answers: Mapping[str, Sequence[results.Observed]],
    questions: Sequence[str],
    *,
    max_unavailable_frac: float = 0.05,
    on_judged: Callable[[str, int], object] = lambda _model, _n: None,
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

        def tell(
            _: int, __: JudgeResult, model: str = model, total: int = len(chosen)
        ) -> None:
            on_judged(model, total)

        views = [tasks[one.task_id].judge_view(Answer(one.text)) for one in chosen]
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
        found[model] = {
            one.key: reward_of(result, tasks[one.task_id].rubric)
            for one, result in zip(chosen, judged, strict=True)
        }
    return found


def second_opinion(
    model: str,
    signs: Sequence[Signs],
    settings: results.HackingSettings,
    *,
    judged: int,
) -> results.SecondOpinion | None:
    """Set two judges' rewards of one model side by side; None where they share no answer.

    Args:
        model: its name.
        signs: of its answers.
        settings: how the interval is drawn.
        judged: answers that the second judge was given.
    """
    both = [
        (sign.reward, sign.second, sign.doc_hash)
        for sign in signs
        if sign.second is not None
    ]
    if not both:
        return None
    first_N, second_N, documents_N = zip(*both, strict=True)
    return results.SecondOpinion(
        model=model,
        n=len(both),
        left_out=judged - len(both),
        first_mean=sum(first_N) / len(both),
        second_mean=sum(second_N) / len(both),
        agreement=results.rank_correlation(
            first_N, second_N, documents_N, **settings.draws
        ),
    )


def divergence(
    a: _OfModel, b: _OfModel, settings: results.HackingSettings
) -> results.Divergence | None:
    """Ask whether the second judge sees the gain a − b too; None where they share no question."""
    both = [[sign for sign in signs if sign.second is not None] for _, signs in (a, b)]
    *of_first, clusters = _paired(both[0], both[1], "reward")
    *of_second, _ = _paired(both[0], both[1], "second")
    if not clusters:
        return None
    gains = [
        [x - y for x, y in zip(*sides, strict=True)] for sides in (of_first, of_second)
    ]
    first, second = (
        mean_interval(gain, clusters_N=clusters, **settings.draws) for gain in gains
    )
    apart = paired_interval(*gains, clusters_N=clusters, **settings.draws)
    return results.Divergence(
        **apart.model_dump(),
        a=a[0],
        b=b[0],
        first=first,
        second=second,
        is_diverging=first.is_above(0) and apart.is_above(0),
    )
