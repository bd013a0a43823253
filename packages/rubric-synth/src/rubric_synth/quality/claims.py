"""Whether the criteria of a draft state claims, and not only what they are about."""

from rubric_judge import VerificationError, parse_verification
from rubric_judge.checks.directive import ProgramCheck
from rubric_synth.document import RejectionReason
from rubric_synth.stages.stages import CriterionDraft, Draft, refuse
from rubric_synth.tables import patterns

_CLAIMS = patterns("claims_of_criteria")


def check_claims(draft: Draft) -> None:
    """Check that each criterion says what a full answer states, and not only what it is about.

    One that a program checks states its claim to the program.

    Raises:
        StageRefusal: A description names a topic alone; the detail names the criterion.
    """
    for criterion in draft.criteria:
        is_empty = states_nothing(criterion.description) and not _is_run(criterion)
        refuse(RejectionReason.NO_CLAIM, f"criterion {criterion.id}", when=is_empty)


def _is_run(criterion: CriterionDraft) -> bool:
    try:
        return isinstance(
            parse_verification(criterion.verification_method), ProgramCheck
        )
    except VerificationError:
        return False  # refused with a reason of its own where checks are run


def states_nothing(description: str) -> bool:
    """Whether a description of a criterion names a topic and states nothing of it.

    Args:
        description: "Explains the role of X" does; "Says that X lowers Y" and "Names X, Y and Z as
            the causes" do not.
    """
    content = _CLAIMS["opening"].sub("", description.strip())
    if _CLAIMS["play"].search(content):
        return True
    if _CLAIMS["topic"].match(content) is None:
        return False
    return _CLAIMS["claim"].search(content) is None
