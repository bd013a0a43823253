"""Does the policy's side of a run hold a text of the judge's? Asked of all that it reads."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rubric_core import Criterion, Task, read_tasks
from rubric_core.files import read_file
from rubric_train_openrlhf.cluster.command.flags import command_words, grpo_flags
from rubric_train_openrlhf.cluster.rehearse.checking import Finding, failed, passed, warning

if TYPE_CHECKING:
    from rubric_train_openrlhf.config import TrainConfig
    from rubric_train_openrlhf.run import RunFolder


Run = tuple[str, ...]
"""Words that follow each other, in lower case."""

_LONGEST: Final = 8
"""Words of a run, as where a question is compared with its passage."""
_SHORTEST: Final = 5
"""Words of a text that is too short to be cut; fewer may well stand together by chance."""
_WORD: Final = re.compile(r"\w+")
_ESCAPED: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|["\\/bfnrt])')
"""Of JSON, of YAML in quotes and of Python's repr."""
_PRINTED: Final = re.compile(rb"(?:[\t\n\r\x20-\x7e]|[\xc2-\xf4][\x80-\xbf]{1,3}){20,}")
"""Text among other bytes, such as a table of Arrow's: shorter ones hold no run."""


class HiddenTexts:
    """Texts that the policy's side must not hold, by what they are."""

    def __init__(self) -> None:
        """Begin with none."""
        self.kinds: dict[Run, str] = {}
        """What each run of words is part of."""
        self._lengths: dict[str, set[int]] = {}

    def hide(self, texts: Iterable[str | None], *, kind: str) -> None:
        """Add texts; those of a few words are left out.

        Args:
            texts: any.
            kind: what to call them where one stands.
        """
        for words in (_words(text) for text in texts if text):
            length = min(_LONGEST, len(words))
            for start in range(len(words) - length + 1 if length >= _SHORTEST else 0):
                self.kinds.setdefault(tuple(words[start : start + length]), kind)
                self._lengths.setdefault(words[start], set()).add(length)

    def show(self, texts: Iterable[str | None]) -> None:
        """Allow what stands in texts that the policy is meant to read."""
        for text in texts:
            for run in self._runs_in(_words(text or "")):
                del self.kinds[run]

    def kinds_in(self, content: bytes) -> list[str]:
        """Name what stands in a file or an argument, in any case, escaped or among other bytes."""
        pieces = (piece.decode("utf-8", errors="replace") for piece in _PRINTED.findall(content))
        runs = (run for piece in pieces for run in self._runs_in(_words(_unescaped(piece))))
        return sorted({self.kinds[run] for run in runs})

    def _runs_in(self, words: list[str]) -> set[Run]:
        return {
            run
            for start, word in enumerate(words)
            for length in self._lengths.get(word, ())
            if (run := tuple(words[start : start + length])) in self.kinds
        }


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)


def _hidden_texts(
    train: Collection[Task], heldout: Collection[Task], *, learns_answers: bool
) -> HiddenTexts:
    """What the policy must not read of tasks to train on and of held-out ones.

    Args:
        train: questions of which the policy samples answers.
        heldout: questions that it is evaluated on.
        learns_answers: whether a warm start shows it the answers to those of `train`.
    """
    tasks, hidden = (*train, *heldout), HiddenTexts()
    for task in tasks:
        hidden.hide([task.grounding.reveal()], kind="a passage")
        for criterion in task.rubric:
            hidden.hide(_texts(criterion), kind="a rubric")
        hidden.hide([task.question_rationale], kind="a rationale")
        if (analysis := task.document_analysis) is not None:
            texts = (analysis.contribution, *analysis.concepts)
            hidden.hide(texts, kind="a document's analysis")
    answered = heldout if learns_answers else tasks
    hidden.hide((task.reference_answer for task in answered), kind="a reference answer")
    hidden.show(task.question for task in tasks)
    if learns_answers:
        hidden.show(task.reference_answer for task in train)
    return hidden


def _texts(criterion: Criterion) -> Iterator[str]:
    yield from (criterion.name, criterion.description)
    yield from (criterion.scoring_guide, criterion.verification_method)
    yield from criterion.required_elements
    yield from criterion.expected_keywords
    yield from criterion.expected_concepts


_JUDGES_OWN: Final = ("judgements", "ledger", "report.html")
"""Beginnings of names in a run folder that only the judge's side reads, and people."""


def check_asymmetry(
    config: TrainConfig, folder: RunFolder, *, arguments: Collection[bytes] = ()
) -> Iterator[Finding]:
    """Search all that the policy's side may read for what it must not know.

    That is every file of the rehearsal but the task files and what only the judge reads: prompts,
    answers of the warm start, configurations, logs, rollouts and checkpoints.

    Args:
        config: of the two steps.
        folder: of the run.
        arguments: arguments and variables of the run's processes.
    """
    train, validation = list(read_tasks(config.data.train)), config.data.validation
    heldout = [] if validation is None else list(read_tasks(validation))
    hidden = _hidden_texts(train, heldout, learns_answers=config.sft is not None)
    files = sorted(path for path in _policy_files(config, folder) if path.is_file())
    arguments = [" ".join(command_words(grpo_flags(config))).encode(), *arguments]
    leaks = [
        f"{path.relative_to(folder.path.parent).as_posix()} holds text of {kind}"
        for path in files
        for kind in hidden.kinds_in(read_file(path))
    ]
    leaks += [
        f"an argument or a variable of a process holds text of {kind}"
        for argument in arguments
        for kind in hidden.kinds_in(argument)
    ]
    for leak in dict.fromkeys(leaks):
        yield failed(leak, remedy="report it: a defect")
    if not hidden.kinds:
        yield warning("what is hidden from the policy is too short to be searched for")
    elif not leaks:
        yield passed(
            f"none of {len(hidden.kinds)} runs of words of {len(train) + len(heldout)} tasks, "
            f"which are the judge's alone, stands in {len(files)} files and {len(arguments)} "
            "arguments"
        )


def _policy_files(config: TrainConfig, folder: RunFolder) -> Iterator[Path]:
    judges = {path.absolute() for path in (config.data.train, config.data.validation) if path}
    for path in folder.path.parent.rglob("*"):
        is_runs = folder.path in path.parents
        name = path.relative_to(folder.path).parts[0] if is_runs else ""
        if path.absolute() not in judges and not name.startswith(_JUDGES_OWN):
            yield path
