"""Are the tasks there, well formed, apart from each other, and short enough to be asked?"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from transformers import AutoTokenizer

from rubric_core import RubricFileError, Task
from rubric_core.data.dataset import read_each_task
from rubric_core.data.leak import by_holder, leaked_ngrams
from rubric_train_openrlhf.cluster.rehearse import checking as check
from rubric_train_openrlhf.cluster.rehearse.checking import Finding, Subject

_REPORTED = 5
"""Lines that are reported one by one; the rest are counted."""
TRAIN = "data.train"
HELDOUT = "data.validation"


def check_training_tasks(subject: Subject) -> Iterable[Finding]:
    """Read every row of the training file; with `--data`, of that file instead."""
    configured = subject.known.data.train
    path = subject.request.data
    if path is None:
        return _read(subject, configured, key=TRAIN)
    subject.stand_in(f"tasks: {str(path)!r} instead of {str(configured)!r}")
    if not path.exists():
        return [
            check.failed(
                f"no file at {str(path)!r} on this machine",
                remedy="give `--data` the path of a task file",
            )
        ]
    return _read(subject, path, key=TRAIN)


def check_heldout_tasks(subject: Subject) -> Iterable[Finding]:
    """Read every row of the held-out file, if the run has one."""
    path = subject.known.data.validation
    if path is None:
        return [
            check.warning(
                "no held-out tasks: the last checkpoint counts as the best",
                remedy="name a file that shares no document with data.train",
            )
        ]
    return _read(subject, path, key=HELDOUT)


def _read(subject: Subject, path: Path, *, key: str) -> Iterable[Finding]:
    if path.exists() and not path.is_file():
        return [
            check.failed(
                f"{str(path)!r} is a folder, not a file",
                remedy="give the path of a JSONL or Parquet file of tasks",
            )
        ]
    if not path.is_file():
        return [
            subject.absent(
                f"no file at {str(path)!r} on this machine",
                remedy="copy it here, give `--data`, or write it with `rubric-synth run`",
            )
        ]
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
        mend = "repair the row or drop it" if wrong[0].line else "give a file of tasks"
        return _first(
            [check.failed(f"{file_error}", remedy=mend) for file_error in wrong],
            f"rows of {path}",
        )
    if not tasks:
        return [
            check.failed(
                f"{str(path)!r} holds no task",
                remedy="write one with `rubric-synth run`",
            )
        ]
    findings = [check.passed(f"{len(tasks)} tasks in {str(path)!r}")]
    if repeated := len(tasks) - len(subject.tasks[key]):
        repeating = check.warning(
            f"{repeated} rows are tasks that stand there already",
            remedy="drop them; the run reads each task once",
        )
        findings.append(repeating)
    return findings


def _first(problems: Sequence[Finding], others: str) -> Iterator[Finding]:
    """The first problems one by one, and how many more there are."""
    yield from problems[:_REPORTED]
    if (more := len(problems) - _REPORTED) > 0:
        yield check.failed(f"and {more} more {others}")


def check_enough_tasks(subject: Subject) -> Finding:
    """A step should not ask the same question twice."""
    prompts = subject.known.rollout.prompts
    tasks = len(subject.train_tasks)
    if tasks >= prompts:
        return check.passed(f"{tasks} tasks for steps of {prompts}")
    return check.warning(
        f"rollout.prompts={prompts} is more than the {tasks} tasks of data.train: a step "
        "asks some of them several times",
        remedy="lower it, or write more tasks",
    )


def check_splits(subject: Subject) -> Finding:
    """No document may be on both sides of the split."""
    train = subject.train_tasks
    heldout = subject.heldout_tasks
    if shared := {task.doc_hash for task in train} & {
        task.doc_hash for task in heldout
    }:
        return check.failed(
            f"{len(shared)} documents have tasks to train on and held-out ones, the "
            f"first {min(shared)!r}: the held-out reward would measure memory",
            remedy="split by document, as `rubric-synth run` does",
        )
    if not heldout:
        return check.unchecked("there are no held-out tasks to compare with")
    return check.passed(f"no document of {len(heldout)} held-out tasks is trained on")


def check_leaks(subject: Subject) -> Iterable[Finding]:
    """No prompt may hold a run of words of its passage, its rubric or its reference answer."""
    n = subject.known.data.leak_ngram
    tasks = {
        task.task_id: task for task in (*subject.heldout_tasks, *subject.train_tasks)
    }
    leaks = [
        _leak(held_by, key, n, ", ".join(overlap.source for overlap in overlaps))
        for key, task in tasks.items()
        for held_by, overlaps in by_holder(leaked_ngrams(task, n=n))
    ]
    if not leaks:
        return [
            check.passed(
                f"{len(tasks)} questions share no {n} words in a row with what is hidden"
            )
        ]
    return _first(leaks, "questions or contexts do")


def _leak(held_by: str, task: str, n: int, sources: str) -> Finding:
    if held_by == "question":
        return check.failed(
            f"the question of task {task} shares {n} or more words in a row with its "
            f"{sources}",
            remedy="reword or drop the question",
        )
    return check.failed(
        f"the context of task {task} shares {n} or more words in a row with its "
        f"{sources}, and not with its passage",
        remedy="leave the section out of the context, or the task",
    )


def check_warm_start(subject: Subject) -> Finding:
    """A warm start needs reference answers."""
    sft = subject.known.sft
    if sft is None:
        return check.passed("no warm start is asked for")
    tasks = subject.train_tasks
    answered = sum(bool(task.reference_answer) for task in tasks)
    if not answered:
        return check.failed(
            f"sft is on, but none of {len(tasks)} tasks has a reference_answer",
            remedy="add answers with `rubric-synth run`, or remove the section",
        )
    if answered < sft.batch_size:
        return check.warning(
            f"{answered} reference answers are fewer than one batch of {sft.batch_size}",
            where="sft.batch_size",
        )
    return check.passed(f"{answered} of {len(tasks)} tasks have a reference answer")


def check_questions(subject: Subject) -> Iterator[Finding]:
    """Look for questions that would be read as something else, or scored in two ways."""
    tasks = (*subject.train_tasks, *subject.heldout_tasks)
    same: dict[str, list[Task]] = {}
    for task in subject.train_tasks:
        same.setdefault(task.question, []).append(task)
    # Tasks of one question are judged by different rubrics or passages: else they were one.
    repeated = [group for group in same.values() if len(group) > 1]
    if repeated:
        first_group = repeated[0]
        yield check.warning(
            f"{len(repeated)} questions are asked by several tasks, which reward the "
            f"same answer differently, the first by {len(first_group)}: "
            f"{_named(subject, first_group)}",
            remedy="keep one task of each question, or say in the questions what "
            "differs",
        )
    prompts = {task.task_id: task.policy_view().message for task in tasks}
    odd = [task for task in tasks if "\0" in prompts[task.task_id]]
    if odd:
        yield check.warning(
            f"{len(odd)} questions hold a NUL character: {_named(subject, odd)}",
            remedy="remove it: the text was probably read from a file that holds no text",
        )
    # One of these ends or begins a turn, as if the template had written it.
    special = _special_tokens(subject)
    marked = [
        task
        for task in tasks
        if any(token in prompts[task.task_id] for token in special)
    ]
    if marked:
        token = min(token for token in special if token in prompts[marked[0].task_id])
        yield check.warning(
            f"{len(marked)} questions hold special tokens of the model, which it does "
            f"not read as text, the first {token!r}: {_named(subject, marked)}",
            remedy="reword the questions, or drop the tasks",
        )
    if not (repeated or odd or marked):
        yield check.passed(
            f"{len(tasks)} questions, each asked once, and nothing in them but text"
        )


def _special_tokens(subject: Subject) -> set[str]:
    folder = subject.model_folder
    if subject.codec is None or folder is None:
        return set()
    tokenizer: Any = cast("Any", AutoTokenizer).from_pretrained(
        folder, local_files_only=True
    )
    added: Iterable[Any] = tokenizer.added_tokens_decoder.values()
    return {str(token) for token in added if token.special} | set(
        tokenizer.all_special_tokens
    )


def _named(subject: Subject, tasks: Sequence[Task]) -> str:
    shown = [subject.place(task.task_id) for task in tasks[:_REPORTED]]
    more = f" and {len(tasks) - _REPORTED} more" if len(tasks) > _REPORTED else ""
    return f"{', '.join(shown)}{more}"


_TEMPLATE_BYTES = 256
"""Room for a chat template around a question; a system text of Llama 3.1's has some 130 bytes."""


def check_prompt_lengths(subject: Subject) -> Iterable[Finding]:
    """Count each prompt's tokens against what `cluster.max_len` leaves beside a response."""
    config = subject.known
    codec = subject.codec
    most = config.cluster.max_len
    new = config.rollout.max_new_tokens
    limit = most - new
    room = f"cluster.max_len={most} − rollout.max_new_tokens={new} = {limit} tokens"
    tasks = (*subject.train_tasks, *subject.heldout_tasks)

    def length(task: Task) -> int:
        # No tokenizer joins two words in one token.
        words = task.policy_view().message.split()
        return len(
            codec.encode_prompt(task.policy_view()).token_ids if codec else words
        )

    unit = "tokens" if codec else "words, each a token or more"
    lengths = {task.task_id: length(task) for task in tasks}
    over = sorted(
        (key for key in lengths if lengths[key] > limit), key=lambda key: -lengths[key]
    )
    if over:
        sizes = [(subject.place(key), f"{lengths[key]} {unit}") for key in over]
        said = [
            check.failed(
                f"the prompt of task {task} has {size}: more than {room}",
                remedy="raise cluster.max_len, lower rollout.max_new_tokens, or drop the "
                "task",
            )
            for task, size in sizes
        ]
        return _first(said, f"of {len(lengths)} prompts are too long")
    if codec is not None:
        longest = max(lengths.values())
        return [
            check.passed(
                f"the longest of {len(tasks)} prompts has {longest} tokens, of {room}"
            )
        ]
    # A tokenizer that knows every byte makes no more tokens than there are bytes.
    most = (
        max(len(task.policy_view().message.encode()) for task in tasks)
        + _TEMPLATE_BYTES
    )
    if most <= limit:
        return [
            check.passed(
                f"no prompt has more than {most} bytes, chat template included, and so "
                f"no more tokens: {room}"
            )
        ]
    return [
        subject.absent(
            f"no tokenizer at {subject.model_name!r} to count with; the longest prompt "
            f"has up to {most} bytes, and there is room for {room}",
            where="model.path",
            remedy="copy the model's tokenizer files and config.json here",
        )
    ]
