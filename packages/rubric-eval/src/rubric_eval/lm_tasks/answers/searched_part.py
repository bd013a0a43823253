"""Selection of the part of a response that is searched for an answer."""

from typing import Protocol

from rubric_core import answer_of
from rubric_core.files import toml_beside
from rubric_core.rewriting import patterns
from rubric_eval.lm_tasks.answers.statements import statements

_PATTERNS = patterns(toml_beside(__file__, "patterns.toml")["searched_part"])


class Rule(Protocol):
    """A rule that finds the answer that a text states."""

    def __call__(self, text: str, /, *, is_cut: bool) -> str | None:
        """Return the answer; None if the text states none."""
        ...


def read_by(
    rule: Rule,
    response: str,
    *,
    is_cut: bool,
) -> str | None:
    """Read the answer of a response.

    Thoughts are left out, and after a thought that does not end there is nothing to read. If the
    response goes on with a question of its own, it is read up to there. The text between
    `<answer>` and `</answer>` counts, unless something is stated after it.

    Args:
        rule: rule that finds an answer in a text.
        response: the whole response of the model, or its answer alone.
        is_cut: whether it is known to be cut.
    """
    text = answer_of(str(response)).text
    for match in _PATTERNS["next_question"].finditer(text):
        head = text[: match.start()].rstrip()
        if not head:
            continue
        # The last line of a head without a statement is read only if a question surely follows.
        is_sure = _PATTERNS["sure"].search(match.group()) is not None
        answer = _read_tagged(rule, f"{head}\n", is_cut=not is_sure)
        if answer is not None:
            return answer
    return _read_tagged(rule, text, is_cut=is_cut)


def _read_tagged(
    rule: Rule,
    text: str,
    *,
    is_cut: bool,
) -> str | None:
    answer = _read_last_tag(rule, text)
    if answer is not None:
        return answer
    before, mark, rest = text.rpartition("<answer>")
    is_open = bool(mark) and "</answer>" not in rest
    if is_open and not is_cut:
        inner = rest.strip()
        return rule(f"{before}\nThe answer is: {inner}", is_cut=False)
    plain = _PATTERNS["tag"].sub("\n", text)
    return rule(plain, is_cut=is_cut)


def _read_last_tag(rule: Rule, text: str) -> str | None:
    """Return the answer in the last tag, unless something is stated after it."""
    tags = list(_PATTERNS["tagged"].finditer(text))
    if not tags:
        return None
    tag = tags[-1]
    if statements(text[tag.end() :]):
        return None
    inner = tag.group(1).strip()
    answer = rule(f"The answer is: {inner}", is_cut=False)
    if not answer:
        answer = rule(inner, is_cut=False)
    return answer
