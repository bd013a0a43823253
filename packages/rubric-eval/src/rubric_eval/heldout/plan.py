"""Plans of held-out evaluations, checked as a whole before anything is asked or written."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rubric_core import Pooling, Task
from rubric_core.files import text_sha256
from rubric_eval.errors import EvalConfigError, EvalFolderError
from rubric_eval.records.files import QuestionRow, questions_sha256, read_rows, read_run
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import EvalPlan, Questions, kinds_of


@dataclass(frozen=True, kw_only=True)
class HeldoutPlan(EvalPlan):
    """Questions and how they are asked and judged.

    Raises:
        ConfigError: the plan is not valid: there is no question, or a seed occurs twice.
    """

    tasks: tuple[Task, ...]
    source: str
    """Source of the tasks."""
    samples: int = 1
    """Number of answers to each question and seed, at least 1."""
    workers: int = 32

    def __post_init__(self) -> None:
        """Check."""
        ids = Counter(self.task_ids)
        twice = [task_id for task_id, count in ids.items() if count > 1]
        if not ids:
            raise EvalConfigError(
                f"{self.source} holds no task: name a file of tasks", location="tasks"
            )
        if twice:
            raise EvalConfigError(
                f"{self.source}: {len(twice)} tasks are there more than once, first "
                f"{twice[0]!r}: drop the copies",
                location="tasks",
            )
        super().__post_init__()

    @cached_property
    def task_ids(self) -> tuple[str, ...]:
        """Ids of the questions, in their order; each is a hash of the whole task."""
        return tuple(task.task_id for task in self.tasks)

    @cached_property
    def by_id(self) -> Mapping[str, Task]:
        """The tasks by their ids."""
        return dict(zip(self.task_ids, self.tasks, strict=True))

    @cached_property
    def prompts(self) -> tuple[str, ...]:
        """Hashes of what the models are given, in the order of the questions."""
        return tuple(text_sha256(task.policy_view().prompt_key) for task in self.tasks)

    @property
    def answers(self) -> int:
        """Answers of each model, N · seeds · samples."""
        return len(self.tasks) * len(self.seeds) * self.samples

    @property
    def questions(self) -> Questions:
        """Summary of the questions, with a hash of ids, texts and the passages of each."""
        return Questions(
            source=self.source,
            sha256=questions_sha256(self.question_rows()),
            count=len(self.tasks),
        )

    def question_rows(self) -> list[QuestionRow]:
        """Return the questions, in their order."""
        pooling = Pooling.of(self.by_id.values())
        return [
            QuestionRow(
                task_id=task_id,
                doc_hash=task.doc_hash,
                question=task.question,
                prompt_sha256=text_sha256(task.policy_view().prompt_key)
                if task.context
                else "",
                field=task.document_analysis.genre if task.document_analysis else "",
                passage_sha256=task.grounding.sha256,
                weights={
                    criterion.id: criterion.weight
                    for criterion in task.rubric
                    if criterion.weight > 0
                },
                kinds=kinds_of(task.rubric, pooling),
            )
            for task_id, task in self.by_id.items()
        ]


def plan_of(
    folder: EvalFolder,
    tasks: Iterable[Task],
    *,
    source: str,
    max_unavailable_frac: float = 0.05,
    workers: int = 32,
) -> HeldoutPlan:
    """Return how an evaluation was made, to go on with it.

    Args:
        folder: of the evaluation.
        tasks: those that it asked, with others or without.
        source: where they come from.
        max_unavailable_frac: see `HeldoutPlan`.
        workers: see `HeldoutPlan`.

    Raises:
        EvalFolderError: no evaluation, or a task that it asked is not among these.
        RubricFileError: a file of it is damaged.
    """
    run = read_run(folder)
    if run.kind != "heldout":
        raise EvalFolderError(
            f"{folder.root} holds a {run.kind} evaluation: nothing was judged"
        )
    by_id = {task.task_id: task for task in tasks}
    ids = [row.task_id for row in read_rows(folder.questions, QuestionRow)]
    missing = [task_id for task_id in ids if task_id not in by_id]
    if missing:
        raise EvalFolderError(
            f"{source} lacks {len(missing)} of the {len(ids)} tasks that {folder.root} asked, "
            f"first {missing[0]!r}: give the file that was given as --tasks"
        )
    return HeldoutPlan(
        tasks=tuple(by_id[task_id] for task_id in ids),
        source=source,
        decoding=run.decoding,
        seeds=run.seeds,
        samples=run.samples,
        max_unavailable_frac=max_unavailable_frac,
        workers=workers,
    )


def spread(tasks: Sequence[Task], limit: int | None) -> tuple[Task, ...]:
    """Take at most so many tasks from all over a list, which is in the order of documents."""
    if limit is None or limit >= len(tasks):
        return tuple(tasks)
    return tuple(tasks[number * len(tasks) // limit] for number in range(limit))
