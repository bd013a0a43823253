"""Judged responses with their texts, as every source gives them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rubric_core import Evidence, JudgeResult, JudgeView, Outcome, Task
from rubric_core.reward.projection import shares_by_id, weighted_scores_z
from rubric_core.schema.pools import kind_pool
from rubric_judge.quality.reliability.rates import MET
from rubric_judge.quality.responses import reward_of

_NO_EVIDENCE: Mapping[str, Evidence] = {}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One judge's words and scores of one response."""

    outcome: Outcome
    reward: float | None
    """Reward in [0, 1], where it is known."""
    z: Mapping[str, float]
    """z_j by criterion id; empty unless scored."""
    why: str = ""
    """Reason and detail of a failure, or why there was nothing to judge."""
    reasoning: str = ""
    evidence: Mapping[str, Evidence] = field(default_factory=lambda: _NO_EVIDENCE)

    @classmethod
    def of(cls, result: JudgeResult, z: Mapping[str, float]) -> "Verdict":
        """Return the verdict of a result.

        Args:
            result: the judgement.
            z: its scores by criterion, over the weights.
        """
        words = [result.reason, result.unanswered, result.detail]
        return cls(
            outcome=result.outcome,
            reward=reward_of(result),
            z=z,
            why=": ".join(str(word).replace("_", " ") for word in words if word),
            reasoning=result.reasoning,
            evidence=result.evidence,
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """A judged response of one source."""

    task_id: str
    question: str
    response: str
    """The part that was judged."""
    judge: str
    verdict: Verdict
    shares: Mapping[str, float]
    """α_j by criterion id; empty where the source does not say."""
    place: str
    """Where it stands in its source, such as `line 3`."""
    part: str = ""
    """Step of the run or model that answered; empty where a source has neither."""

    @classmethod
    def of(
        cls,
        task: Task,
        response: str,
        result: JudgeResult,
        *,
        place: str,
        judge: str = "",
        part: str = "",
    ) -> "Judged":
        """Return the response with what a judgement says of it.

        Args:
            task: of the response.
            response: the part that was judged.
            result: the judgement.
            place: where it stands in its source.
            judge: name of the judge; the result's own if empty.
            part: as the field says.

        Raises:
            RewardError: the result is of another rubric.
        """
        return cls(
            task_id=task.task_id,
            question=task.question,
            response=response,
            judge=judge or result.judge,
            verdict=Verdict.of(result, weighted_scores_z(result, task.rubric)),
            shares=shares_by_id(task.rubric),
            place=place,
            part=part,
        )


@dataclass(frozen=True)
class Texts:
    """Texts that a source may lack: tasks by id, and the responses by their lines."""

    tasks: Mapping[str, Task] = field(default_factory=dict[str, Task])
    views: Mapping[int, JudgeView] | None = None


@dataclass(frozen=True)
class Source:
    """The judged responses of one input."""

    name: str
    rows: list[Judged]
    tasks: Mapping[str, Task]
    """Tasks that say what the criteria ask for; empty where they are not there."""
    notes: list[str] = field(default_factory=list[str])
    kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of kinds by criterion id, where the source says them and no task does."""


def people_say(by_rater: Mapping[str, float]) -> bool | None:
    """Tell whether people call a criterion met; None where as many do as do not, or nobody did.

    Args:
        by_rater: z by rater.
    """
    met = sum(z >= MET for z in by_rater.values())
    return None if 2 * met == len(by_rater) else 2 * met > len(by_rater)


def kinds_of(task: Task) -> dict[str, str]:
    """Return the name of each criterion's kind by id, as tables of criteria name it."""
    return {criterion.id: kind_pool(criterion).name for criterion in task.rubric}
