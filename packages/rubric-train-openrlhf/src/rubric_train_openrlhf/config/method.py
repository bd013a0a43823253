"""How a policy learns: from rewards, or from itself shown passage and rubric."""

from collections.abc import Collection, Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rubric_train_openrlhf.policy_config import Section

Shown = Literal["passage_and_rubric", "passage", "rubric"]

_OF_REWARDS = {
    "advantage": "advantages are of rewards",
    "audit": "an audit watches a policy that learns its judge, and none is learnt",
    "dynamic_sampling": "groups are kept by their rewards",
    "objective": "it is the loss of rewards; that of self-distillation is method.beta",
    "rubric_weights": "they weigh criteria of rewards",
    "shaping": "penalties are of rewards",
    "trackers": "they show the figures of rewards",
}
"""Sections that self-distillation has no use for, and why."""


class Grpo(Section):
    """Rewards of a judge, compared within the responses to a prompt."""

    fewest_responses: ClassVar[int] = 2
    """Responses to a prompt that it needs."""
    type: Literal["grpo"] = "grpo"

    def misfits(self, changed: Collection[str], *, backend: str) -> Iterator[str]:
        """Yield nothing: every section is for it."""
        del changed, backend
        yield from ()


class SelfDistillation(Section):
    """The policy that is shown passage and rubric teaches the one that is not."""

    fewest_responses: ClassVar[int] = 1
    type: Literal["self_distillation"] = "self_distillation"
    shown: Shown = "passage_and_rubric"
    """Parts of the task that the teacher is shown beside the student's prompt."""
    teacher: Literal["start", "current"] = "start"
    """The weights that teach: those from before step 1, or those in training, without a gradient
    through them."""
    beta: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0
    """1: reverse KL, student to teacher; 0: forward KL; between: the generalised Jensen-Shannon
    divergence."""

    def misfits(self, changed: Collection[str], *, backend: str) -> Iterator[str]:
        """Yield what it cannot be combined with.

        Args:
            changed: names of the sections that are not at their defaults.
            backend: that runs it.
        """
        if backend != "local":
            yield (
                f"method.type='self_distillation' and backend={backend!r}: the teacher reads "
                "passage and rubric where the policy is trained, and the processes of a cluster "
                "that train it never hold them; use backend: local"
            )
        for name, why in _OF_REWARDS.items():
            if name in changed:
                yield (
                    f"{name} has no effect under method.type='self_distillation', in which "
                    f"no training response gets a reward: {why}; leave it out"
                )


Method = Annotated[Grpo | SelfDistillation, Field(discriminator="type")]


def is_grpo(method: object) -> bool:
    """Return whether a method is the default, which is left out of what is written."""
    return isinstance(method, Grpo)
