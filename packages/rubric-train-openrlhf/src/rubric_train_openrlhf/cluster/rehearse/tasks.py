"""Are the tasks there, well formed, apart from each other, and short enough to be asked?"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# transformers annotates these methods in part only.
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from transformers import AutoTokenizer

from rubric_core import RubricFileError, SchemaError, Task
from rubric_core import read_tasks as read_parquet
from rubric_core.files import read_each_line
from rubric_core.leak import leaked_ngrams
from rubric_train_openrlhf.cluster.rehearse.finding import failed, passed, unchecked, warning
from rubric_train_openrlhf.config import PathModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from rubric_train_openrlhf.cluster.rehearse.checking import Subject
    from rubric_train_openrlhf.cluster.rehearse.finding import Finding


_REPORTED: Final = 5
"""Lines that are reported one by one; the rest are counted."""
TRAIN: Final = "data.train"
HELDOUT: Final = "data.validation"


def check_training_tasks(subject: Subject) -> Iterator[Finding]:
    """Read every row of the training file; with `--data`, of that file instead."""
    config, given = subject.known, subject.request.data
    if given is not None:
        subject.stand_in(f"tasks: {str(given)!r} instead of {str(config.data.train)!r}")
    yield from _read(subject, given or config.data.train, key=TRAIN, needed=given is not None)


def check_heldout_tasks(subject: Subject) -> Iterator[Finding]:
    """Read every row of the held-out file, if the run has one."""
    path = subject.known.data.validation
    if path is None:
        yield warning(
            "no held-out tasks: the last checkpoint counts as the best",
            where=HELDOUT,
            remedy="name a file that shares no document with data.train",
        )
        return
    yield from _read(subject, path, key=HELDOUT, needed=False)


def check_enough_tasks(subject: Subject) -> Iterator[Finding]:
    """A step should not ask the same question twice."""
    prompts, tasks = subject.known.rollout.prompts, len(subject.train_tasks)
    if tasks < prompts:
        yield warning(
            f"rollout.prompts={prompts} is more than the {tasks} tasks of data.train: a step asks "
            "some of them several times",
            where="rollout.prompts",
            remedy="lower it, or write more tasks",
        )
    else:
        yield passed(f"{tasks} tasks for steps of {prompts}")


def check_splits(subject: Subject) -> Iterator[Finding]:
    """No document may be on both sides of the split."""
    heldout = subject.tasks.get(HELDOUT, ())
    shared = {task.doc_hash for task in subject.train_tasks} & {task.doc_hash for task in heldout}
    if shared:
        yield failed(
            f"{len(shared)} documents have tasks to train on and held-out ones, the first "
            f"{min(shared)!r}: the held-out reward would measure memory",
            where=HELDOUT,
            remedy="split by document, as `rubric-synth run` does",
        )
    elif heldout:
        yield passed(f"no document of {len(heldout)} held-out tasks is trained on")
    else:
        yield unchecked("there are no held-out tasks to compare with", where=HELDOUT)


def check_leaks(subject: Subject) -> Iterator[Finding]:
    """No question may hold a run of words of its passage or its rubric."""
    n = subject.known.data.leak_ngram
    tasks = {**_by_id(subject.tasks.get(HELDOUT, ())), **_by_id(subject.train_tasks)}
    leaks = [(key, found) for key, task in tasks.items() if (found := leaked_ngrams(task, n=n))]
    for task_id, overlaps in leaks[:_REPORTED]:
        sources = ", ".join(overlap.source for overlap in overlaps)
        yield failed(
            f"the question of task {task_id} shares {n} or more words in a row with its {sources}",
            where="data.leak_ngram",
            remedy="reword or drop the question",
        )
    if len(leaks) > _REPORTED:
        yield failed(f"and {len(leaks) - _REPORTED} more questions do", where="data.leak_ngram")
    if not leaks:
        yield passed(f"{len(tasks)} questions share no {n} words in a row with what is hidden")


def check_warm_start(subject: Subject) -> Iterator[Finding]:
    """A warm start needs reference answers."""
    sft = subject.known.sft
    if sft is None:
        yield passed("no warm start is asked for", where="sft")
        return
    tasks = subject.train_tasks
    answered = sum(bool(task.reference_answer) for task in tasks)
    if not answered:
        yield failed(
            f"sft is on, but none of {len(tasks)} tasks has a reference_answer",
            where="sft",
            remedy="add answers with `rubric-synth run`, or remove the section",
        )
    elif answered < sft.batch_size:
        yield warning(
            f"{answered} reference answers are fewer than one batch of {sft.batch_size}",
            where="sft.batch_size",
        )
    else:
        yield passed(f"{answered} of {len(tasks)} tasks have a reference answer", where="sft")


def _read(subject: Subject, path: Path, *, key: str, needed: bool) -> Iterator[Finding]:
    if path.exists() and not path.is_file():
        remedy = "give the path of a JSONL or Parquet file of tasks"
        yield failed(f"{str(path)!r} is a folder, not a file", where=key, remedy=remedy)
        return
    if not path.is_file():
        missing = f"no file at {str(path)!r} on this machine"
        if needed:
            yield failed(missing, where=key, remedy="give `--data` the path of a task file")
        else:
            yield subject.absent(
                missing,
                where=key,
                remedy="copy it here, give `--data`, or write it with `rubric-synth run`",
            )
        return
    tasks: list[Task] = []
    wrong: list[RubricFileError] = []
    try:
        for place, row in _rows(path):
            if isinstance(row, RubricFileError):
                wrong.append(row)
                continue
            tasks.append(row)
            subject.places.setdefault(row.task_id, place)
    except RubricFileError as error:
        wrong.append(error)
    subject.tasks[key] = tuple(_by_id(tasks).values())
    for error in wrong[:_REPORTED]:
        yield failed(str(error), where=key, remedy=_remedy(error))
    if len(wrong) > _REPORTED:
        yield failed(f"{path}: and {len(wrong) - _REPORTED} more rows", where=key)
    if not wrong:
        yield from _counted(subject, path, key=key, rows=len(tasks))


def _counted(subject: Subject, path: Path, *, key: str, rows: int) -> Iterator[Finding]:
    tasks = len(subject.tasks[key])
    if not tasks:
        remedy = "write one with `rubric-synth run`"
        yield failed(f"{str(path)!r} holds no task", where=key, remedy=remedy)
        return
    yield passed(f"{rows} tasks in {str(path)!r}", where=key)
    if tasks < rows:
        yield warning(
            f"{rows - tasks} rows are tasks that stand there already",
            where=key,
            remedy="drop them; the run reads each task once",
        )


def _remedy(error: RubricFileError) -> str:
    return "repair the row or drop it" if error.line else "give a file of tasks"


def _rows(path: Path) -> Iterator[tuple[str, Task | RubricFileError]]:
    """Every row with its place, or what is wrong with it: this goes on after a bad line."""
    if path.suffix.lower() != ".jsonl":
        for number, task in enumerate(read_parquet(path), start=1):
            yield f"{path}, row {number}", task
        return
    for line, row in read_each_line(path):
        try:
            if isinstance(row, SchemaError):
                raise row
            yield f"{path}:{line}", Task.from_json(row)
        except SchemaError as error:
            wrong = RubricFileError(str(error), path=path, line=line, field=error.field)
            yield f"{path}:{line}", wrong


def _by_id(tasks: list[Task] | tuple[Task, ...]) -> dict[str, Task]:
    return {task.task_id: task for task in tasks}


def check_questions(subject: Subject) -> Iterator[Finding]:
    """Look for questions that would be read as something else, or scored in two ways."""
    tasks = (*subject.train_tasks, *subject.tasks.get("data.validation", ()))
    findings = [
        *_asked_twice(subject, subject.train_tasks),
        *_with_nul(subject, tasks),
        *_with_special_tokens(subject, tasks),
    ]
    yield from findings
    if not findings:
        yield passed(f"{len(tasks)} questions, each asked once, and nothing in them but text")


def _asked_twice(subject: Subject, tasks: Sequence[Task]) -> Iterator[Finding]:
    """Tasks of one question are judged by different rubrics or passages: else they were one."""
    same: dict[str, list[Task]] = {}
    for task in tasks:
        same.setdefault(task.question, []).append(task)
    repeated = [group for group in same.values() if len(group) > 1]
    if repeated:
        places = _named(subject, repeated[0])
        yield warning(
            f"{len(repeated)} questions are asked by several tasks, which reward the same answer "
            f"differently, the first by {len(repeated[0])}: {places}",
            where="data.train",
            remedy="keep one task of each question, or say in the questions what differs",
        )


def _with_nul(subject: Subject, tasks: Sequence[Task]) -> Iterator[Finding]:
    if found := [task for task in tasks if "\0" in task.question]:
        yield warning(
            f"{len(found)} questions hold a NUL character: {_named(subject, found)}",
            where="data.train",
            remedy="remove it: the text was probably read from a file that is none",
        )


def _with_special_tokens(subject: Subject, tasks: Sequence[Task]) -> Iterator[Finding]:
    """A special token in a question ends or begins a turn, as if the template had written it."""
    model = subject.known.model
    if subject.codec is None or not isinstance(model, PathModel):
        return
    read: Any = AutoTokenizer
    tokenizer = read.from_pretrained(model.path, local_files_only=True)
    added: list[Any] = list(tokenizer.added_tokens_decoder.values())
    named: list[str] = tokenizer.all_special_tokens
    special = {str(token) for token in added if token.special} | set(named)
    found = [task for task in tasks if any(token in task.question for token in special)]
    if found:
        token = min(token for token in special if token in found[0].question)
        yield warning(
            f"{len(found)} questions hold special tokens of the model, which it does not read as "
            f"text, the first {token!r}: {_named(subject, found)}",
            where="data.train",
            remedy="reword the questions, or drop the tasks",
        )


def _named(subject: Subject, tasks: Sequence[Task]) -> str:
    shown = [subject.place(task.task_id) for task in tasks[:_REPORTED]]
    more = f" and {len(tasks) - _REPORTED} more" if len(tasks) > _REPORTED else ""
    return f"{', '.join(shown)}{more}"


_TEMPLATE_BYTES: Final = 256
"""Room for a chat template around a question; a system text of Llama 3.1's has some 130 bytes."""


def check_prompt_lengths(subject: Subject) -> Iterator[Finding]:
    """Count each prompt's tokens against what `cluster.max_len` leaves beside a response."""
    config = subject.known
    limit = config.cluster.max_len - config.rollout.max_new_tokens
    room = (
        f"cluster.max_len={config.cluster.max_len} − "
        f"rollout.max_new_tokens={config.rollout.max_new_tokens} = {limit} tokens"
    )
    tasks = (*subject.train_tasks, *subject.tasks.get("data.validation", ()))
    if subject.codec is None:
        # No tokenizer joins two words in one token.
        words = {task.task_id: len(task.question.split()) for task in tasks}
        too_long = list(_too_long(subject, words, "words, each a token or more", limit, room))
        yield from too_long or [_bounded_by_bytes(subject, tasks, limit=limit, room=room)]
        return
    lengths = {
        task.task_id: len(subject.codec.encode_prompt(task.policy_view()).token_ids)
        for task in tasks
    }
    too_long = list(_too_long(subject, lengths, "tokens", limit, room))
    yield from too_long
    if not too_long:
        yield passed(
            f"the longest of {len(tasks)} prompts has {max(lengths.values())} tokens, of {room}"
        )


def _too_long(
    subject: Subject, lengths: Mapping[str, int], unit: str, limit: int, room: str
) -> Iterator[Finding]:
    """Name the longest of those that do not fit, and count the others."""
    over = sorted((key for key in lengths if lengths[key] > limit), key=lambda key: -lengths[key])
    for task_id in over[:_REPORTED]:
        yield failed(
            f"the prompt of task {subject.place(task_id)} has {lengths[task_id]} {unit}: more than "
            f"{room}",
            where="cluster.max_len",
            remedy="raise cluster.max_len, lower rollout.max_new_tokens, or drop the task",
        )
    if len(over) > _REPORTED:
        more = f"and {len(over) - _REPORTED} more of {len(lengths)} prompts are too long"
        yield failed(more, where="cluster.max_len")


def _bounded_by_bytes(
    subject: Subject, tasks: tuple[Task, ...], *, limit: int, room: str
) -> Finding:
    """Without a tokenizer: one that knows every byte makes no more tokens than there are bytes."""
    most = max(len(task.question.encode()) for task in tasks) + _TEMPLATE_BYTES
    if most <= limit:
        return passed(
            f"no prompt has more than {most} bytes, chat template included, and so no more "
            f"tokens: {room}"
        )
    model = subject.known.model
    at = str(model.path) if isinstance(model, PathModel) else model.type
    return subject.absent(
        f"no tokenizer at {at!r} to count with; the longest prompt has up to {most} bytes, and "
        f"there is room for {room}",
        where="model.path",
        remedy="copy the model's tokenizer files and config.json here",
    )
