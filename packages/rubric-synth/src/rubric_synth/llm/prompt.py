"""The prompt files, filled: one opening with the document for all three stages, then the task.

A server's prefix cache reads the document once for the three questions about it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Final, NamedTuple

from rubric_core import DocumentAnalysis
from rubric_judge.llm.prompt import fenced
from rubric_synth.config import LLMConfig, TaskType
from rubric_synth.document import Document
from rubric_synth.llm.paragraphs import ShownText
from rubric_synth.stages import Draft

_SYSTEM: Final = "system_v1.txt"
_DOCUMENT: Final = "document_v1.jinja"
_ANALYSIS: Final = "analysis_v1.jinja"
_SYNTHESIS: Final = "synthesis_v1.jinja"
_ENRICHMENT: Final = "enrichment_v1.jinja"
_FILES: Final = (_SYSTEM, _DOCUMENT, _ANALYSIS, _SYNTHESIS, _ENRICHMENT)
_LONGEST_TITLE: Final = 300
_SLOT: Final = "\0"
"""Where the one text stands that each question has of its own."""
_ENRICHED: Final = {"question", "criteria", "reference_answer"}
"""What stage 3 sees of a draft."""


class _Frame(NamedTuple):
    """A file filled with what the configuration decides, around the one text that differs."""

    before: str
    after: str

    def around(self, text: str) -> str:
        return f"{self.before}{text}{self.after}"


class Prompts(NamedTuple):
    """The files of one configuration, filled but for what is asked about."""

    system: str
    """The same for all stages."""
    analysis: str
    """The task of stage 1, which nothing changes."""
    document: _Frame
    synthesis: _Frame
    enrichment: _Frame

    def opening(self, document: Document, shown: ShownText) -> str:
        """Return the part of the user message that the stages share."""
        title = " ".join(document.title.split())[:_LONGEST_TITLE]
        text = f"Title: {title}\n\n{shown.rendered()}"
        return self.document.around(fenced(text, label="DOCUMENT", seed=document.doc_hash))

    def for_synthesis(self, document: Document, analysis: DocumentAnalysis) -> str:
        """Return the task of stage 2."""
        found = json.dumps(analysis.model_dump(mode="json"), ensure_ascii=False)
        return self.synthesis.around(fenced(found, label="ANALYSIS", seed=document.doc_hash))

    def for_enrichment(self, document: Document, draft: Draft) -> str:
        """Return the task of stage 3."""
        fields = draft.model_dump(mode="json", include=_ENRICHED)
        found = json.dumps(fields, ensure_ascii=False)
        return self.enrichment.around(fenced(found, label="DRAFT", seed=document.doc_hash))


def load_prompts(config: LLMConfig) -> Prompts:
    """Read the files and fill in what the configuration decides; the same object every time."""
    return _load(config.questions_per_document, tuple(config.task_types))


def prompt_hashes(config: LLMConfig) -> dict[str, str]:
    """Return the prompt files that a configuration uses, each with its SHA-256."""
    kinds = type_files(config.task_types) if asks_for_checks(config.task_types) else ()
    texts = {name: _read(name) for name in _FILES} | {name: _text(name) for name in kinds}
    return {name: hashlib.sha256(texts[name].encode()).hexdigest() for name in sorted(texts)}


def type_files(task_types: Sequence[TaskType]) -> list[str]:
    """Return the files on the kinds of questions to ask for, in the order of the configuration."""
    kinds = list(dict.fromkeys(task_types))
    names = kinds if len(kinds) == 1 else ["several", *kinds]
    return [f"types/{name}_v1.txt" for name in names]


def instructions(task_types: Sequence[TaskType]) -> str:
    """Return the part of the prompt of stage 2 on the kinds of questions: their files, in order."""
    return "\n\n".join(_text(name).strip() for name in type_files(task_types))


def asks_for_checks(task_types: Sequence[TaskType]) -> bool:
    """Whether a question may hold checks that a program runs; none of the paper's does."""
    return any(kind != "open" for kind in task_types)


@lru_cache(maxsize=16)
def _load(questions: int, task_types: tuple[TaskType, ...]) -> Prompts:
    # Loaded with the first prompt: the extractive synthesiser needs none.
    from jinja2 import BaseLoader, Environment, StrictUndefined

    # Plain text for a model: nothing is escaped. A missing variable is an error, never a blank.
    environment = Environment(loader=BaseLoader(), autoescape=False, undefined=StrictUndefined)  # noqa: S701
    environment.filters["tojson"] = json.dumps

    def frame(name: str, **values: object) -> _Frame:
        before, after = environment.from_string(_read(name)).render(values).split(_SLOT)
        return _Frame(before, after)

    return Prompts(
        system=_read(_SYSTEM),
        analysis=environment.from_string(_read(_ANALYSIS)).render(),
        document=frame(_DOCUMENT, document=_SLOT),
        synthesis=frame(
            _SYNTHESIS,
            analysis=_SLOT,
            questions=questions,
            task_types=task_types,
            types=instructions(task_types) if asks_for_checks(task_types) else "",
        ),
        enrichment=frame(_ENRICHMENT, draft=_SLOT),
    )


def _read(name: str) -> str:
    return _text(name).rstrip("\n")


@lru_cache
def _text(name: str) -> str:
    return (resources.files("rubric_synth") / "prompts" / name).read_text("utf-8")
