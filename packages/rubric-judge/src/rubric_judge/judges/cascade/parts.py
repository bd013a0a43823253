"""Parts of a rubric that a cascade asks for, and which criteria are audited."""

from rubric_core import JudgeView, Rubric
from rubric_judge.config import CascadeConfig
from rubric_judge.judges.several import draw


class Parts:
    """A rubric's parts and their reversals, each built once."""

    def __init__(self, rubric: Rubric) -> None:
        """Take the whole rubric."""
        self._rubric = rubric
        self._weighty = {c.id for c in rubric if c.weight}
        self._built: dict[frozenset[str], Rubric] = {frozenset(self._weighty): rubric}
        self._back: Rubric | None = None

    def of(self, criteria: set[str]) -> Rubric:
        """Return the rubric of some criteria; all of it where they are all that have weight."""
        key = frozenset(criteria)
        if key not in self._built:
            chosen = tuple(c for c in self._rubric if c.id in criteria)
            self._built[key] = Rubric(criteria=chosen)
        return self._built[key]

    def turned(self, config: CascadeConfig, sample: int) -> Rubric:
        """Return the rubric in the order of one of a judge's answers."""
        if config.uncertainty != "orders" or sample % 2 == 0:
            return self._rubric
        if self._back is None:
            criteria = tuple(self._rubric)
            self._back = Rubric(criteria=criteria[::-1])
        return self._back


def is_audited(view: JudgeView, criterion: str, *, share: float) -> bool:
    """Tell whether a criterion of a response is audited, by a hash of what is judged.

    Args:
        view: the response, with its question and passage.
        criterion: the criterion's id.
        share: probability of an audit.
    """
    judged = (view.grounding.sha256, view.question, view.identity)
    return draw("audit", *judged, criterion) < share * 2**64
