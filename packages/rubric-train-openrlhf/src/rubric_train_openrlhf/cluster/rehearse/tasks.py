"""Are the tasks there, well formed, apart from each other, and short enough to be asked?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from transformers import AutoTokenizer

from rubric_core import RubricFileError, Task
from rubric_core.data.dataset import read_each_task
from rubric_core.data.leak import leaked_ngrams
from rubric_train_openrlhf.cluster.rehearse import checking as check

_REPORTED: Final = 5
"""Lines that are reported one by one; the rest are counted."""
TRAIN: Final = "data.train"
HELDOUT: Final = "data.validation"


def check_training_tasks(subject: check.Subject) -> Iterable[check.Finding]:
    """Read every row of the training file; with `--data`, of that file instead."""
    configured, given = subject.known.data.train, subject.request.data
    if given is None:
        return _read(subject, configured, key=TRAIN)
    subject.stand_in(f"tasks: {str(given)!r} instead of {str(configured)!r}")
    if not given.exists():
        missing = f"no file at {str(given)!r} on this machine"
        return [check.failed(missing, remedy="give `--data` the path of a task file")]
    return _read(subject, given, key=TRAIN)


def check_heldout_tasks(subject: check.Subject) -> Iterable[check.Finding]:
    """Read every row of the held-out file, if the run has one."""
    path = subject.known.data.validation
    if path is None:
        said = "no held-out tasks: the last checkpoint counts as the best"
        return [check.warning(said, remedy="name a file that shares no document with data.train")]
    return _read(subject, path, key=HELDOUT)


def _read(subject: check.Subject, path: Path, *, key: str) -> Iterable[check.Finding]:
    if path.exists() and not path.is_file():
        remedy = "give the path of a JSONL or Parquet file of tasks"
        return [check.failed(f"{str(path)!r} is a folder, not a file", remedy=remedy)]
    if not path.is_file():
        remedy = "copy it here, give `--data`, or write it with `rubric-synth run`"
        return [subject.absent(f"no file at {str(path)!r} on this machine", remedy=remedy)]
    tasks: list[Task] = []
    wrong: list[RubricFileError] = []
    try:
        for line, row in read_each_task(path):
            if isinstance(row, RubricFileError):
                wrong.append(row)
            else:
                tasks.append(row)
                subject.places.setdefault(row.task_id, f"{path}:{line}")
    except RubricFileError as error:
        wrong.append(error)
    subject.tasks[key] = tuple({task.task_id: task for task in tasks}.values())
    if wrong:
        remedy = "repair the row or drop it" if wrong[0].line else "give a file of tasks"
        return _first([str(error) for error in wrong], f"rows of {path}", remedy=remedy)
    if not tasks:
        remedy = "write one with `rubric-synth run`"
        return [check.failed(f"{str(path)!r} holds no task", remedy=remedy)]
    found = [check.passed(f"{len(tasks)} tasks in {str(path)!r}")]
    if repeated := len(tasks) - len(subject.tasks[key]):
        said = f"{repeated} rows are tasks that stand there already"
        found.append(check.warning(said, remedy="drop them; the run reads each task once"))
    return found


def _first(problems: Sequence[str], others: str, *, remedy: str) -> Iterator[check.Finding]:
    """The first problems one by one, and how many more there are."""
    yield from (check.failed(one, remedy=remedy) for one in problems[:_REPORTED])
    if (more := len(problems) - _REPORTED) > 0:
        yield check.failed(f"and {more} more {others}")


def check_enough_tasks(subject: check.Subject) -> check.Finding:
    """A step should not ask the same question twice."""
    prompts, tasks = subject.known.rollout.prompts, len(subject.train_tasks)
    if tasks >= prompts:
        return check.passed(f"{tasks} tasks for steps of {prompts}")
    return check.warning(
        f"rollout.prompts={prompts} is more than the {tasks} tasks of data.train: a step asks "
        "some of them several times",
        remedy="lower it, or write more tasks",
    )


def check_splits(subject: check.Subject) -> check.Finding:
    """No document may be on both sides of the split."""
    train, heldout = subject.train_tasks, subject.heldout_tasks
    if shared := {task.doc_hash for task in train} & {task.doc_hash for task in heldout}:
        return check.failed(
            f"{len(shared)} documents have tasks to train on and held-out ones, the first "
            f"{min(shared)!r}: the held-out reward would measure memory",
            remedy="split by document, as `rubric-synth run` does",
        )
    if not heldout:
        return check.unchecked("there are no held-out tasks to compare with")
    return check.passed(f"no document of {len(heldout)} held-out tasks is trained on")


def check_leaks(subject: check.Subject) -> Iterable[check.Finding]:
    """No question may hold a run of words of its passage or its rubric."""
    n = subject.known.data.leak_ngram
    tasks = {task.task_id: task for task in (*subject.heldout_tasks, *subject.train_tasks)}
    leaks = [
        f"the question of task {key} shares {n} or more words in a row with its "
        f"{', '.join(overlap.source for overlap in overlaps)}"
        for key, task in tasks.items()
        if (overlaps := leaked_ngrams(task, n=n))
    ]
    if not leaks:
        said = f"{len(tasks)} questions share no {n} words in a row with what is hidden"
        return [check.passed(said)]
    return _first(leaks, "questions do", remedy="reword or drop the question")


def check_warm_start(subject: check.Subject) -> check.Finding:
    """A warm start needs reference answers."""
    sft = subject.known.sft
    if sft is None:
        return check.passed("no warm start is asked for")
    tasks = subject.train_tasks
    answered = sum(bool(task.reference_answer) for task in tasks)
    if not answered:
        said = f"sft is on, but none of {len(tasks)} tasks has a reference_answer"
        remedy = "add answers with `rubric-synth run`, or remove the section"
        return check.failed(said, remedy=remedy)
    if answered < sft.batch_size:
        said = f"{answered} reference answers are fewer than one batch of {sft.batch_size}"
        return check.warning(said, where="sft.batch_size")
    return check.passed(f"{answered} of {len(tasks)} tasks have a reference answer")


def check_questions(subject: check.Subject) -> Iterator[check.Finding]:
    """Look for questions that would be read as something else, or scored in two ways."""
    tasks = (*subject.train_tasks, *subject.heldout_tasks)
    same: dict[str, list[Task]] = {}
    for task in subject.train_tasks:
        same.setdefault(task.question, []).append(task)
    # Tasks of one question are judged by different rubrics or passages: else they were one.
    if repeated := [group for group in same.values() if len(group) > 1]:
        yield check.warning(
            f"{len(repeated)} questions are asked by several tasks, which reward the same "
            f"answer differently, the first by {len(repeated[0])}: "
            f"{_named(subject, repeated[0])}",
            remedy="keep one task of each question, or say in the questions what differs",
        )
    if odd := [task for task in tasks if "\0" in task.question]:
        said = f"{len(odd)} questions hold a NUL character: {_named(subject, odd)}"
        remedy = "remove it: the text was probably read from a file that is none"
        yield check.warning(said, remedy=remedy)
    # One of these ends or begins a turn, as if the template had written it.
    special = _special_tokens(subject)
    if marked := [task for task in tasks if any(token in task.question for token in special)]:
        token = min(token for token in special if token in marked[0].question)
        said = (
            f"{len(marked)} questions hold special tokens of the model, which it does not read as "
            f"text, the first {token!r}: {_named(subject, marked)}"
        )
        yield check.warning(said, remedy="reword the questions, or drop the tasks")
    if not (repeated or odd or marked):
        yield check.passed(f"{len(tasks)} questions, each asked once, and nothing in them but text")


def _special_tokens(subject: check.Subject) -> set[str]:
    folder = subject.model_folder
    if subject.codec is None or folder is None:
        return set()
    tokenizer: Any = cast("Any", AutoTokenizer).from_pretrained(folder, local_files_only=True)
    added: Iterable[Any] = tokenizer.added_tokens_decoder.values()
    return {str(token) for token in added if token.special} | set(tokenizer.all_special_tokens)


def _named(subject: check.Subject, tasks: Sequence[Task]) -> str:
    shown = [subject.place(task.task_id) for task in tasks[:_REPORTED]]
    more = f" and {len(tasks) - _REPORTED} more" if len(tasks) > _REPORTED else ""
    return f"{', '.join(shown)}{more}"


_TEMPLATE_BYTES: Final = 256
"""Room for a chat template around a question; a system text of Llama 3.1's has some 130 bytes."""


def check_prompt_lengths(subject: check.Subject) -> Iterable[check.Finding]:
    """Count each prompt's tokens against what `cluster.max_len` leaves beside a response."""
    config, codec = subject.known, subject.codec
    limit = config.cluster.max_len - config.rollout.max_new_tokens
    room = (
        f"cluster.max_len={config.cluster.max_len} − "
        f"rollout.max_new_tokens={config.rollout.max_new_tokens} = {limit} tokens"
    )
    tasks = (*subject.train_tasks, *subject.heldout_tasks)

    def length(task: Task) -> int:
        # No tokenizer joins two words in one token.
        words = task.question.split()
        return len(codec.encode_prompt(task.policy_view()).token_ids if codec else words)

    unit = "tokens" if codec else "words, each a token or more"
    lengths = {task.task_id: length(task) for task in tasks}
    over = sorted((key for key in lengths if lengths[key] > limit), key=lambda key: -lengths[key])
    if over:
        said = [
            f"the prompt of task {subject.place(key)} has {lengths[key]} {unit}: more than {room}"
            for key in over
        ]
        remedy = "raise cluster.max_len, lower rollout.max_new_tokens, or drop the task"
        return _first(said, f"of {len(lengths)} prompts are too long", remedy=remedy)
    if codec is not None:
        longest = max(lengths.values())
        said = f"the longest of {len(tasks)} prompts has {longest} tokens, of {room}"
        return [check.passed(said)]
    # A tokenizer that knows every byte makes no more tokens than there are bytes.
    most = max(len(task.question.encode()) for task in tasks) + _TEMPLATE_BYTES
    if most <= limit:
        said = (
            f"no prompt has more than {most} bytes, chat template included, and so no more tokens"
        )
        return [check.passed(f"{said}: {room}")]
    said = (
        f"no tokenizer at {subject.model_name!r} to count with; the longest prompt has up to "
        f"{most} bytes, and there is room for {room}"
    )
    remedy = "copy the model's tokenizer files and config.json here"
    return [subject.absent(said, where="model.path", remedy=remedy)]
