"""The teacher's side of self-distillation: what it is shown, which the student never is.

Only a step of the trainer asks for it, to encode it: a `TeacherView` holds passage and rubric, is
no `PolicyView`, and goes to no file, log or sampler.
"""

from dataclasses import dataclass, field

from rubric_core import Criterion, Task
from rubric_core.schema.context import Section, as_plain_text
from rubric_core.schema.conversation import messages_of
from rubric_train_openrlhf.config.method import Shown

_RUBRIC_HEADING = "What a full answer does"


@dataclass(frozen=True)
class TeacherView:
    """A question with all that the teacher is shown beside it; its `repr` is the question's id."""

    task_id: str
    question: str = field(repr=False)
    sections: tuple[Section, ...] = field(repr=False)
    """Sections that the student may look up, then the passage, then the rubric."""
    conversation: bool = field(default=False, repr=False)
    """Whether the question is a conversation of several messages, written as one text."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt as a chat, in the words of an open-book question."""
        return messages_of(
            self.question, self.sections, is_conversation=self.conversation
        )

    @property
    def plain_text(self) -> str:
        """The prompt for a model without a chat template, which continues it."""
        return as_plain_text(self.question, self.sections)


def teacher_view(task: Task, *, shown: Shown) -> TeacherView:
    """Return what the teacher sees of a task.

    Args:
        task: with its passage and rubric.
        shown: which of them.
    """
    sections = [*(task.context or ())]
    if shown != "rubric":
        sections.append(_section(task, "", task.grounding.reveal()))
    if shown != "passage":
        lines = "\n".join(f"- {_demand(criterion)}" for criterion in task.rubric)
        sections.append(_section(task, _RUBRIC_HEADING, lines))
    return TeacherView(
        task.task_id, task.question, tuple(sections), conversation=task.conversation
    )


def _section(task: Task, heading: str, text: str) -> Section:
    return Section(doc_hash=task.doc_hash, heading=heading, text=text)


def _demand(criterion: Criterion) -> str:
    """Say in a line what a criterion asks for, by the first of its texts that there is."""
    elements = (*criterion.required_elements, *criterion.expected_concepts)
    texts = (
        criterion.description,
        criterion.name,
        ", ".join(elements or criterion.expected_keywords),
    )
    return next((text for text in texts if text.strip()), criterion.id)
