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
        self._kinds: dict[Run, str] = {}
        self._lengths: dict[str, set[int]] = {}

    def __len__(self) -> int:
        """Number of runs."""
        return len(self._kinds)

    def hide(self, texts: Iterable[str], *, kind: str) -> None:
        """Add texts.

        Args:
            texts: any; those of a few words are left out.
            kind: what to call them where one is found.
        """
        for text in texts:
            for run in _runs(text):
                self._kinds.setdefault(run, kind)
                self._lengths.setdefault(run[0], set()).add(len(run))

    def show(self, texts: Iterable[str]) -> None:
        """Allow what stands in texts that the policy is meant to read."""
        for text in texts:
            for run in self._found(_words(text)):
                del self._kinds[run]

    def kinds_in(self, content: bytes) -> list[str]:
        """Name what stands in a file or an argument, in any case, escaped or among other bytes."""
        pieces = _PRINTED.findall(content)
        found = {
            self._kinds[run]
            for piece in pieces
            for run in self._found(_words(_unescaped(piece.decode("utf-8", errors="replace"))))
        }
        return sorted(found)

    def _found(self, words: list[str]) -> set[Run]:
        return {
            run
            for start, word in enumerate(words)
            for length in self._lengths.get(word, ())
            if (run := tuple(words[start : start + length])) in self._kinds
        }


def judges_texts(task: Task) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The texts of a task that the policy never reads, by what they are."""
    yield "a passage", (task.grounding.reveal(),)
    yield "a rubric", tuple(text for one in task.rubric for text in _texts(one))
    yield "a rationale", (task.question_rationale,)
    if task.document_analysis is not None:
        analysis = task.document_analysis
        yield "a document's analysis", (analysis.contribution, *analysis.concepts)


def _texts(criterion: Criterion) -> tuple[str, ...]:
    return (
        criterion.name,
        criterion.description,
        criterion.scoring_guide,
        criterion.verification_method,
        *criterion.required_elements,
        *criterion.expected_keywords,
        *criterion.expected_concepts,
    )


def _runs(text: str) -> Iterator[Run]:
    words = _words(text)
    if len(words) < _SHORTEST:
        return
    length = min(_LONGEST, len(words))
    for start in range(len(words) - length + 1):
        yield tuple(words[start : start + length])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)


_JUDGES_OWN: Final = ("judgements", "ledger", "report.html")
"""Beginnings of names in a run folder that only the judge's side reads, and people."""
_REMEDY: Final = "report it: a defect"


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
    train = list(read_tasks(config.data.train))
    validation = config.data.validation
    heldout = [] if validation is None else list(read_tasks(validation))
    hidden = hidden_texts(train, heldout, learns_answers=config.sft is not None)
    files = sorted(path for path in _policy_files(config, folder) if path.is_file())
    words = " ".join(command_words(grpo_flags(config))).encode()
    arguments = [words, *arguments]
    found = dict.fromkeys(
        (place, kind)
        for place, content in _places(files, arguments, root=folder.path.parent)
        for kind in hidden.kinds_in(content)
    )
    for place, kind in found:
        yield failed(f"{place} holds text of {kind}", remedy=_REMEDY)
    if len(hidden) == 0:
        yield warning("what is hidden from the policy is too short to be searched for")
    elif not found:
        yield passed(
            f"none of {len(hidden)} runs of words of {len(train) + len(heldout)} tasks, which are "
            f"the judge's alone, stands in {len(files)} files and {len(arguments)} arguments"
        )


def hidden_texts(
    train: Collection[Task], heldout: Collection[Task], *, learns_answers: bool
) -> HiddenTexts:
    """What the policy must not read of tasks to train on and of held-out ones.

    Args:
        train: questions of which the policy samples answers.
        heldout: questions that it is evaluated on.
        learns_answers: whether a warm start shows it the answers to those of `train`.
    """
    tasks = (*train, *heldout)
    hidden = HiddenTexts()
    for task in tasks:
        for kind, texts in judges_texts(task):
            hidden.hide(texts, kind=kind)
    answered = heldout if learns_answers else tasks
    hidden.hide((task.reference_answer or "" for task in answered), kind="a reference answer")
    hidden.show(task.question for task in tasks)
    if learns_answers:
        hidden.show(task.reference_answer or "" for task in train)
    return hidden


def _places(
    files: Collection[Path], arguments: Collection[bytes], *, root: Path
) -> Iterator[tuple[str, bytes]]:
    for path in files:
        yield path.relative_to(root).as_posix(), read_file(path)
    for argument in arguments:
        yield "an argument or a variable of a process", argument


def _policy_files(config: TrainConfig, folder: RunFolder) -> Iterator[Path]:
    judges = {config.data.train.absolute()}
    if config.data.validation is not None:
        judges.add(config.data.validation.absolute())
    for path in folder.path.parent.rglob("*"):
        is_runs = folder.path in path.parents
        name = path.relative_to(folder.path).parts[0] if is_runs else ""
        if path.absolute() not in judges and not name.startswith(_JUDGES_OWN):
            yield path
