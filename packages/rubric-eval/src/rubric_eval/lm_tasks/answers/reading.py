"""What of a response is read for an answer: its thoughts dropped, up to a question of its own."""

from typing import Final, Protocol

from rubric_core import answer_of
from rubric_core.files import toml_beside
from rubric_core.rewriting import patterns
from rubric_eval.lm_tasks.answers.statements import statements

_PATTERNS: Final = patterns(toml_beside(__file__, "patterns.toml")["reading"])


class Rule(Protocol):
    """Finds the answer that a text states."""

    def __call__(self, text: str, /, *, is_cut: bool) -> str | None:
        """Return it; None where it states none."""
        ...


def read_by(rule: Rule, response: str, *, is_cut: bool) -> str | None:
    """Read a response.

    A thought states nothing, and one that does not end leaves nothing to be read. Where the
    response goes on with a question that nobody asked, it is read up to there. What stands between
    `<answer>` and `</answer>` counts, unless something is stated behind it.

    Args:
        rule: how an answer is found.
        response: all that the model wrote, or its answer alone.
        is_cut: whether it is known to be cut.
    """
    text = answer_of(str(response)).text
    for match in _PATTERNS["next_question"].finditer(text):
        head = text[: match.start()].rstrip() + "\n"
        # Of a head that ends in no statement, the last line is read where a question is sure.
        is_sure = _PATTERNS["sure"].search(match.group()) is not None
        answer = _read_tagged(rule, head, is_cut=not is_sure) if head.strip() else None
        if answer is not None:
            return answer
    return _read_tagged(rule, text, is_cut=is_cut)


def _read_tagged(rule: Rule, text: str, *, is_cut: bool) -> str | None:
    tagged = list(_PATTERNS["tagged"].finditer(text))
    if tagged and not statements(text[tagged[-1].end() :]):
        inner = tagged[-1].group(1).strip()
        answer = rule(f"The answer is: {inner}", is_cut=False) or rule(
            inner, is_cut=False
        )
        if answer is not None:
            return answer
    before, mark, rest = text.rpartition("<answer>")
    if mark and not is_cut and "</answer>" not in rest:
        return rule(f"{before}\nThe answer is: {rest.strip()}", is_cut=False)
    return rule(_PATTERNS["tag"].sub("\n", text), is_cut=is_cut)
