"""Messages to a language-model judge: prompt files, filled and fenced.

Passage and response are untrusted text. Each stands between lines with a mark that it does not
contain, so that no text can close its own fence and speak as the evaluator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import count
from typing import TYPE_CHECKING, Literal

from rubric_core import JudgeView, Rubric
from rubric_core.files import text_sha256
from rubric_core.schema.judged import TOOL_USE
from rubric_core.schema.trace import Excerpt, PartKind

if TYPE_CHECKING:
    from jinja2 import Template

Layout = Literal[
    "paper", "shared_prefix", "by_criterion", "by_part", "verdict", "listwise"
]
"""Which file: a `PromptLayout` of one call for all criteria; one call for each, for a part of them
or for the verdict on each; or one for a group."""
_OTHER_SYSTEM = {"listwise": "listwise_system", "verdict": "verdict_system"}
"""Layouts with a system message of their own."""
_MARK_CHARS = 16
_WORD_JOINER = "\u2060"
CONTROL_TOKENS = re.compile(
    r"<(?=[|｜][^\s<>]{1,60}[|｜]>|/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|think)>|<SYS>>|</SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
)
"""First character of what chat templates of open models use as control tokens."""


_HEX = re.compile(rf"[0-9a-f]{{{_MARK_CHARS},}}")


def fenced(text: str, *, label: str, seed: str, beside: str = "") -> str:
    """Put a text between a BEGIN and an END line.

    A server that applies a chat template reads `<|im_end|>` in a message as the token that ends
    it, wherever it stands. Such spellings get a word joiner, which nobody sees, after their first
    character.

    Args:
        text: anything.
        label: what the text is, in capitals.
        seed: the same text with the same seed gets the same mark, so that prompts share a prefix.
        beside: what stands in other texts of the prompt and must be no mark either.

    Returns:
        The lines; their mark stands nowhere in the text, in any case of its letters.
    """
    inert = text
    if "<" in text or "[" in text:
        inert = CONTROL_TOKENS.sub(lambda match: match[0] + _WORD_JOINER, text)
    mark = _mark(f"{inert.casefold()}\n{beside}", seed=f"{label} {seed}")
    return f"----- BEGIN {label} {mark} -----\n{inert}\n----- END {label} {mark} -----"


def _mark(folded: str, *, seed: str) -> str:
    hashes = (text_sha256(f"{seed}\x1f{attempt}") for attempt in count())
    return next(mark for hash_ in hashes if (mark := hash_[:_MARK_CHARS]) not in folded)


_VERSION = "v1"
_LABELS = {
    PartKind.USER: "USER",
    PartKind.EARLIER: "EARLIER REPLY",
    PartKind.EARLIER_CALL: "EARLIER CALL",
    PartKind.REPLY: "REPLY",
    PartKind.CALL: "CALL",
    PartKind.RESULT: "RESULT",
}
_NO_CALL = "[the assistant called no tool]"


@cache
def excerpt_rules() -> str:
    """Return what stands above an excerpt of a trace; the ledger's keys of excerpts hold it."""
    folder = resources.files("rubric_judge") / "prompts"
    file = folder.joinpath(f"excerpt_{_VERSION}.txt")
    return file.read_text(encoding="utf-8").rstrip("\n")


def _fenced_excerpt(excerpt: Excerpt, *, seed: str) -> str:
    """Put each text of an excerpt between lines of its own, below the rules for them."""
    shown = [excerpt_rules()]
    # A tool that knows the task could else write the lines around a reply into its result.
    hashes = {
        run for part in excerpt.parts for run in _HEX.findall(part.text.casefold())
    }
    hex_runs = "\n".join(sorted(hashes))
    shown += [
        fenced(
            part.text,
            label=f"{_LABELS[part.kind]} {part.turn}",
            seed=seed,
            beside=hex_runs,
        )
        for part in excerpt.parts
    ]
    if excerpt.judges == TOOL_USE and not excerpt.judged_text:
        shown.append(_NO_CALL)
    return "\n\n".join(shown)


@dataclass(frozen=True)
class RenderedPrompt:
    """The two messages of one judgement."""

    system: str
    user: str
    passage: str
    """The passage as far as the judge sees it."""
    passage_truncated: bool


@dataclass(frozen=True)
class Prompt:
    """The files of one layout, read and hashed."""

    layout: Layout
    sha256: str
    """Hash of all files that shape the messages; it changes when any of them does."""
    _system: str
    _user: Template
    _criteria: Template
    _evidence: str
    """Instruction about quotes; empty if none are asked for."""

    @property
    def version(self) -> str:
        """Name the prompt in results and logs, for example `shared_prefix_v1:0a1b2c3d`."""
        return f"{self.layout}_{_VERSION}:{self.sha256[:8]}"

    def render(self, view: JudgeView, *, passage_chars: int) -> RenderedPrompt:
        """Fill the prompt for one response.

        Args:
            view: what the judge sees.
            passage_chars: longest passage; the rest is cut off and the cut is stated.

        Returns:
            The messages. With the layout `shared_prefix`, the user messages of all responses to a
            task are equal up to the response; with `by_criterion`, `by_part` and `verdict`, those
            for all criteria of a response are equal up to the first criterion.
        """
        if view.excerpt is None:
            response = fenced(view.response, label="RESPONSE", seed=view.task_id)
        else:
            response = _fenced_excerpt(view.excerpt, seed=view.task_id)
        return self._filled(view, response, passage_chars=passage_chars)

    def render_group(
        self, views: Mapping[str, JudgeView], *, seed: str, passage_chars: int
    ) -> RenderedPrompt:
        """Fill the prompt `listwise` for all responses to a task.

        Args:
            views: what the judge sees, by what each response is called, in the order to show.
            seed: of the marks of their fences; one that no response can know.
            passage_chars: as in `render`.

        Returns:
            The messages.
        """
        shown = [
            fenced(view.response, label=f"RESPONSE {name}", seed=seed)
            for name, view in views.items()
        ]
        first = next(iter(views.values()))
        return self._filled(
            first,
            "\n\n".join(shown),
            passage_chars=passage_chars,
            responses=tuple(views),
        )

    def _filled(
        self,
        view: JudgeView,
        response: str,
        *,
        passage_chars: int,
        responses: Sequence[str] = (),
    ) -> RenderedPrompt:
        passage = view.grounding.reveal()
        kept = passage[:passage_chars]
        truncated = len(kept) < len(passage)
        shown = _fenced_passage(kept, seed=view.task_id)
        if truncated:
            shown += (
                f"\n[passage cut: its first {len(kept)} of {len(passage)} characters]"
            )
        user = self._user.render(
            passage=shown,
            question=view.question,
            response=response,
            responses=responses,
            evidence=self._evidence,
            **_about(view.rubric, self._criteria),
        )
        return RenderedPrompt(
            system=self._system, user=user, passage=kept, passage_truncated=truncated
        )


@lru_cache
def load_prompt(layout: Layout, *, evidence: bool = False) -> Prompt:
    """Read the files of a layout.

    Args:
        layout: which file.
        evidence: whether to ask for a quote for each criterion.

    Returns:
        The prompt, the same object every time.
    """
    # Loaded with the first prompt: a program judge needs none.
    from jinja2 import BaseLoader, Environment, StrictUndefined

    folder = resources.files("rubric_judge") / "prompts"
    system = _OTHER_SYSTEM.get(layout, "system")
    criteria_file = "criterion" if layout == "verdict" else "criteria"
    names = [
        f"{system}_{_VERSION}.txt",
        f"{layout}_{_VERSION}.jinja",
        f"{criteria_file}_{_VERSION}.jinja",
    ]
    if evidence:
        names.append(f"evidence_{_VERSION}.txt")
    texts = [
        folder.joinpath(name).read_text(encoding="utf-8").rstrip("\n") for name in names
    ]
    system, user, criteria, *about_evidence = texts
    # Plain text for a model: nothing is escaped. A missing variable is an error, never a blank.
    environment = Environment(
        loader=BaseLoader(),
        autoescape=False,  # noqa: S701
        undefined=StrictUndefined,
    )
    environment.filters |= {"number": _number, "json": _json}
    return Prompt(
        layout=layout,
        # The unit separator keeps ("ab", "c") and ("a", "bc") apart.
        sha256=text_sha256("\x1f".join([*texts, CONTROL_TOKENS.pattern])),
        _system=system,
        _user=environment.from_string(user),
        _criteria=environment.from_string(criteria),
        _evidence="".join(about_evidence),
    )


# What the responses of a group share is written once: these two are most of the work of a prompt.
@lru_cache(maxsize=1024)
def _about(rubric: Rubric, criteria: Template) -> Mapping[str, str]:
    max_total = _number(rubric.total_weight)
    return {
        "criteria": criteria.render(criteria=rubric.criteria, max_total=max_total),
        "score_slots": _slots(rubric, "<score>"),
        "quote_slots": _slots(rubric, '"<quote>"'),
        "max_total": max_total,
    }


@lru_cache(maxsize=64)
def _fenced_passage(text: str, *, seed: str) -> str:
    return fenced(text, label="SOURCE PASSAGE", seed=seed)


def _slots(rubric: Rubric, slot: str) -> str:
    return ", ".join(f"{_json(name)}: {slot}" for name in rubric.ids)


def _number(value: float) -> str:
    # Short, but never rounded: full marks for a weight printed too large would be out of range.
    short = f"{value:.12g}"
    return short if float(short) == value else repr(value)


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
