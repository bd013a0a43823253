"""Views of a task: what the policy, the judge and the supervised warm start see of it."""

from __future__ import annotations

from rubric_core.errors import SchemaError
from rubric_core.schema.answer import Thought, Unanswered, unanswered
from rubric_core.schema.context import OptionalContext, as_message, as_plain_text
from rubric_core.schema.conversation import IsConversation, messages_of
from rubric_core.schema.judged import EVERY_TURN, FULL_TRACE
from rubric_core.schema.rubric import Grounding, Rubric
from rubric_core.schema.sealed import Hidden, Identifier, Sealed, Text, Unshown
from rubric_core.schema.trace import Excerpt
from rubric_core.strict_json import canonical_json


class PolicyView(Sealed):
    """x: all that the policy sees of a task."""

    task_id: Identifier
    """The key that joins rollouts with their task."""

    question: Text
    """The question to answer."""

    context: OptionalContext = None
    """Sections that may be looked up; None for the question alone."""

    conversation: IsConversation = False
    """Whether the question is a conversation of several messages, written as one text."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt as a chat: the messages of a conversation, else one of a user."""
        return messages_of(
            self.question, self.context, is_conversation=self.conversation
        )

    @property
    def message(self) -> str:
        """The prompt as one text: the question, after its context if any."""
        return as_message(self.question, self.context)

    @property
    def prompt_key(self) -> str:
        """The prompt as keys of answers take it: a conversation is another one than its text."""
        if not self.conversation:
            return self.message
        return canonical_json(self.messages)

    @property
    def plain_text(self) -> str:
        """The prompt for a model without a chat template, which continues it."""
        return as_plain_text(self.question, self.context)


class JudgeView(Sealed):
    """(x, g, y, R): all that the judge sees of one response.

    `repr` and `model_dump` leave out the passage, the response and the criteria's texts. It can be
    pickled, with its texts, for judge workers in other processes.
    """

    task_id: Identifier
    """The task that the response answers."""

    question: Text
    """x: the question that the policy was asked."""

    grounding: Hidden[Grounding]
    """g: the passage to check against."""

    response: Hidden[Text]
    """y: the policy's answer, untrusted text; its thought is not part of it."""

    rubric: Rubric
    """R: the criteria to score."""

    thought: Thought = Thought.NONE
    """Whether the policy wrote a thought before its answer."""

    excerpt: Hidden[Excerpt | None] = None
    """The part of a trace that is judged, where that is more than a response alone; `response` is
    then the text that the policy wrote in it, without calls and without what tools returned."""

    @property
    def unanswered(self) -> Unanswered | None:
        """Why there is nothing to judge; None where there is an answer, or a call of a tool."""
        if self.excerpt is not None and self.excerpt.has_judged:
            return None
        return unanswered(self.response, self.thought)

    def of_answer(self) -> JudgeView:
        """Return the view with all criteria about the response, which is all that there is.

        Raises:
            SchemaError: a criterion judges a later turn, or the use of tools.
        """
        if not self.rubric.judges_traces:
            return self
        for criterion in self.rubric:
            if criterion.judges not in (None, EVERY_TURN, "turn_1", FULL_TRACE):
                raise SchemaError(
                    f"criterion {criterion.id!r} judges {criterion.judges!r}, and the response is "
                    "one text: hand over the trace, as docs/judge/traces.md says",
                    field=f"criteria.{criterion.id}.judges",
                )
        return self.model_copy(update={"rubric": self.rubric.of_replies()})

    @property
    def unwritten(self) -> Unanswered | None:
        """Why there is no text to judge, for judges that read text alone."""
        return unanswered(self.response, self.thought)

    @property
    def identity(self) -> str:
        """The response as keys and draws take it: with the excerpt, where there is one."""
        if self.excerpt is None:
            return self.response
        return f"{self.response}\x1f{self.excerpt.identity}"

    @property
    def quotable(self) -> str:
        """The text of the policy where a judge's quotes may stand."""
        if self.excerpt is None:
            return self.response
        return self.excerpt.judged_text


class SftExample(Sealed):
    """A question with a reference answer, for the supervised warm start of the policy."""

    task_id: Identifier
    """The task that the answer belongs to."""

    question: Text
    """The question to answer."""

    answer: Unshown[Text]
    """The answer that the policy learns to write."""

    context: OptionalContext = None
    """Sections that may be looked up."""

    conversation: IsConversation = False
    """Whether the question is a conversation of several messages, written as one text."""

    def policy_view(self) -> PolicyView:
        """Return the view of the policy, before it answers."""
        return PolicyView(
            task_id=self.task_id,
            question=self.question,
            context=self.context,
            conversation=self.conversation,
        )
