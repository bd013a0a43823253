"""Named judges, and the scoring of one model by one judge, written when all answers are judged."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from pydantic import JsonValue

from rubric_core import Answer, Judge, JudgeResult, Outcome, Reason, Task
from rubric_core.files import text_sha256
from rubric_eval.errors import EvalConfigError, Failures, HeldoutAbortError
from rubric_eval.records.files import (
    AnswerRow,
    ReasoningRow,
    RowOfAnswer,
    ScoreRow,
    write_rows,
)
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import JudgeEntry, criteria_z, reward_of
from rubric_judge import JudgePool, JudgeSpec, load_replicas, read_judge_spec
from rubric_judge.judges.capabilities import fingerprint

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.+)", re.DOTALL)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 64
_SHOWN = {
    "name",
    "model",
    "transport",
    "prompt",
    "evidence",
    "verdict",
    "passage_chars",
    "temperature",
    "max_tokens",
    "parameters",
    "python_tests",
    "regex_timeout_s",
}
"""Settings to show a reader. Addresses, names of keys and a plugin's options stay out."""


@dataclass(frozen=True, slots=True)
class NamedJudge:
    """A judge with its name in tables and folders, and its replicas."""

    entry: JudgeEntry
    replicas: tuple[Judge, ...]

    @property
    def name(self) -> str:
        """Name in tables and file names."""
        return self.entry.name


def read_judges(names: Sequence[str]) -> tuple[NamedJudge, ...]:
    """Build judges from `FILE.yaml` or `NAME=FILE.yaml`; nothing is called.

    Args:
        names: at least one; a judge without a name has that of its file.

    Returns:
        The judges, in the order given.

    Raises:
        ConfigError: no judge, a file that cannot be used, or two judges with one name.
        JudgeSetupError, PluginError, SandboxError: as `rubric_judge.load_judge`.
    """
    if not names:
        raise EvalConfigError(
            "no judge: give --judge FILE.yaml, once or more", location="judge"
        )
    judges = tuple(_judge(*_name_and_path(text)) for text in names)
    counts = Counter(judge.name for judge in judges)
    name, count = counts.most_common(1)[0]
    if count > 1:
        raise EvalConfigError(
            f"two judges are called {name!r}: name them with --judge NAME=FILE.yaml",
            location="judge",
        )
    return judges


def _name_and_path(text: str) -> tuple[str, Path]:
    path = Path(text)
    match = _NAMED.fullmatch(text)
    if match is not None and not path.exists():
        return match[1], Path(match[2])
    name = _NOT_IN_NAMES.sub("-", path.stem).lstrip("._-")[:_LONGEST_NAME]
    if not name:
        raise EvalConfigError(
            f"--judge {text}: no name can be made of this: give --judge NAME=FILE.yaml",
            location="judge",
        )
    return name, path


def _judge(name: str, path: Path) -> NamedJudge:
    spec = read_judge_spec(path)
    replicas = load_replicas(spec)
    identity = fingerprint(replicas[0])
    names: dict[str, JsonValue] = {
        "judge": replicas[0].name,
        "fingerprint": identity,
    }
    entry = JudgeEntry(
        name=name,
        fingerprint=text_sha256(identity),
        identity=names | _settings(spec),
    )
    return NamedJudge(entry=entry, replicas=replicas)


def _settings(spec: JudgeSpec) -> dict[str, JsonValue]:
    """Return the settings of a judge to show; its fingerprint identifies it."""
    settings: dict[str, JsonValue] = spec.model_dump(
        mode="json", include=_SHOWN | {"type"}
    )
    if spec.type == "hybrid":
        settings["judge_for_the_rest"] = _settings(spec.judge)
    return settings


_Content = tuple[str, Answer, int]
"""Task, answer and group, on which a judgement depends; the group is 0 of single answers."""
_Listener = Callable[[JudgeResult], None]


class AnswerJudge:
    """One judge for the answers of all models.

    The same answer to the same question by any model is judged once: the pool's ledger has the
    judgements that exist already, and those in progress are waited for. A judge of groups scores
    all answers of one call to a question beside each other, and again in every group they are in.
    """

    def __init__(self, pool: JudgePool, tasks: Mapping[str, Task]) -> None:
        """Prepare; nothing is asked.

        Args:
            pool: the judge's pool, with a ledger.
            tasks: by id, all tasks that answers may belong to.
        """
        self.tasks = tasks
        """Tasks by id."""
        self.at_once = pool.statistics().limit
        """Most calls in flight."""
        self.judges_groups = pool.judges_groups
        """Whether answers must be given group by group, a call for each."""
        self._groups = 0
        self._pool = pool
        self._listeners: dict[_Content, list[_Listener]] = {}

    async def judge(
        self,
        answers: Sequence[AnswerRow],
        *,
        on_result: Callable[[int, JudgeResult], None],
    ) -> None:
        """Judge answers; return when each has its result.

        Args:
            answers: answers with texts, of any tasks, models and seeds.
            on_result: called once for each, with its index, as its judgement ends.

        Raises:
            LedgerError: the ledger cannot be read.
            Exception: any error of `on_result`, this call's or that of another call which waits
                for the same judgement; the calls in flight are cancelled first.
        """
        left = len(answers)
        all_settled = anyio.Event()

        def settle(index: int, result: JudgeResult) -> None:
            nonlocal left
            on_result(index, result)
            left -= 1
            if not left:
                all_settled.set()

        contents = self._listen(answers, settle)

        def tell(position: int, result: JudgeResult) -> None:
            for listener in self._listeners.pop(contents[position]):
                listener(result)

        views = [
            self.tasks[task_id].judge_view(answer) for task_id, answer, _ in contents
        ]
        await self._pool.judge_all(views, on_result=tell)
        if left:  # answers that another call has judged
            await all_settled.wait()

    def _listen(
        self, answers: Sequence[AnswerRow], settle: Callable[[int, JudgeResult], None]
    ) -> list[_Content]:
        """Register for results, and return the contents that are not being judged yet."""
        self._groups += self.judges_groups
        contents: list[_Content] = []
        for index, answer in enumerate(answers):
            content = answer.task_id, answer.answer, self._groups
            if content not in self._listeners:
                self._listeners[content] = []
                contents.append(content)
            self._listeners[content].append(partial(settle, index))
        return contents


Answered = tuple[int, AnswerRow]
"""Seed and answer."""
_Place = tuple[int, str, int]
"""Seed, task and sample of an answer."""


@dataclass
class Scoring:
    """Scores of one model by one judge.

    It ends early where more than the allowed share of all expected answers cannot be judged, for
    then the rest would only be waited for.
    """

    folder: EvalFolder
    answer_judge: AnswerJudge
    judge: str
    model: str
    expected: int
    """Number of the model's answers, N · seeds · samples."""
    max_unavailable_frac: float
    on_judged: Callable[[], object]
    """Called as each answer has its judgement, or is known to have none."""
    samples: int = 1
    """Answers of a seed to each question, which a judge of groups scores beside each other."""
    scores: dict[_Place, ScoreRow] = field(default_factory=dict["_Place", "ScoreRow"])
    judgements: dict[_Place, ReasoningRow] = field(
        default_factory=dict["_Place", "ReasoningRow"]
    )
    _failures: Failures = field(default_factory=Failures)
    _groups: defaultdict[tuple[int, str], list[Answered]] = field(
        default_factory=lambda: defaultdict[tuple[int, str], list[Answered]](list)
    )
    """Answers that wait for the others of their group, by seed and task."""
    _pending: int = 0
    """Number of answers that the judge was given and has not judged yet."""
    _judged: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, answers: MemoryObjectReceiveStream[Answered]) -> None:
        """Judge answers as they come, until the stream ends.

        Raises:
            HeldoutAbortError: too many are without a judgement.
            LedgerError: the ledger cannot be read.
        """
        at_once = self.answer_judge.at_once
        async with anyio.create_task_group() as group, answers:
            async for first in answers:
                batch = [first, *_waiting(answers, most=at_once)]
                for seed, answer in batch:
                    if answer.text is None:
                        self._settle(seed, answer, None)
                written = [
                    (seed, answer) for seed, answer in batch if answer.text is not None
                ]
                for together in self._calls(batch, written):
                    self._pending += len(together)
                    group.start_soon(self._judge, together)
                await self._has_room(at_once)
        if not any(row.reward is not None for row in self.scores.values()):
            raise self._abort()

    def _calls(
        self, batch: Sequence[Answered], written: list[Answered]
    ) -> Iterator[list[Answered]]:
        """Yield what is judged in one call: the batch, or each group that has become whole."""
        if not self.answer_judge.judges_groups:
            if written:
                yield written
            return
        for seed, answer in batch:
            members = self._groups[seed, answer.task_id]
            members.append((seed, answer))
            if len(members) == self.samples:
                texts = [pair for pair in members if pair[1].text is not None]
                members.clear()
                if texts:
                    yield texts

    def write(self, *, seeds: Sequence[int], task_ids: Sequence[str]) -> None:
        """Write all rows, in the order of the questions.

        Raises:
            OSError: they cannot be written.
        """
        samples = sorted({sample for _, _, sample in self.scores})
        for seed in seeds:
            places = list(product([seed], task_ids, samples))
            rows = [
                self.judgements[place] for place in places if place in self.judgements
            ]
            path = self.folder.judgements(self.judge, self.model, seed)
            write_rows(path, rows, private=True)
            # Scores are written last: where they are, everything is.
            scores = [self.scores[place] for place in places]
            write_rows(self.folder.scores(self.judge, self.model, seed), scores)

    async def _has_room(self, at_once: int) -> None:
        """Leave answers in the stream while the judge has enough of them.

        They are then taken together, and the work that is common to a batch is done once.
        """
        while self._pending > at_once:
            self._judged = anyio.Event()
            await self._judged.wait()

    async def _judge(self, batch: Sequence[Answered]) -> None:
        def settle(index: int, result: JudgeResult) -> None:
            self._settle(*batch[index], result)
            self._pending -= 1
            self._judged.set()

        await self.answer_judge.judge([answer for _, answer in batch], on_result=settle)

    def _settle(self, seed: int, answer: AnswerRow, result: JudgeResult | None) -> None:
        place = (seed, answer.task_id, answer.sample)
        rubric = self.answer_judge.tasks[answer.task_id].rubric
        common = answer.model_dump(include={*RowOfAnswer.model_fields, "doc_hash"})
        if result is None:
            row = ScoreRow(
                **common,
                outcome=Outcome.UNAVAILABLE,
                reason=answer.reason,
                reward=None,
                criteria_z={},
            )
        else:
            answered_by = result.answered_by
            row = ScoreRow(
                **common,
                outcome=result.outcome,
                reason=result.reason,
                reward=reward_of(result, rubric),
                fallback="" if answered_by is None else answered_by.fallback,
                criteria_z=criteria_z(result, rubric),
            )
        self.scores[place] = row
        if result is not None and result.reasoning:
            self.judgements[place] = ReasoningRow(
                task_id=answer.task_id,
                sample=answer.sample,
                key=answer.key,
                reasoning=result.reasoning,
                answered_by=result.answered_by,
            )
        self.on_judged()
        if row.outcome is Outcome.UNAVAILABLE and row.reason is not Reason.NOT_WRITTEN:
            if result is None:
                self._failures.add(f"model: {row.reason}", answer.detail)
            else:
                self._failures.add(f"judge: {row.reason}", result.detail)
            if self._failures.total / self.expected > self.max_unavailable_frac:
                raise self._abort()

    def _abort(self) -> HeldoutAbortError:
        failures = self._failures
        judged = sum(row.reward is not None for row in self.scores.values())
        sides = {reason.partition(":")[0] for reason in failures.by_reason}
        names = {"model": f"model {self.model!r}", "judge": f"judge {self.judge!r}"}
        who = " and ".join(name for side, name in names.items() if side in sides)
        share = failures.total / self.expected
        reasons = dict(sorted(failures.by_reason.items()))
        percent = 100 * self.max_unavailable_frac
        return HeldoutAbortError(
            f"model {self.model!r}, judge {self.judge!r}: no judgement for {failures.total} of "
            f"{self.expected} answers: {failures}. At most {percent:g} % "
            f"(--max-unavailable-frac), and not all, may be missing. Check the {who}: whether "
            "it is up, and what its own log says. Nothing is lost: all answers that came, "
            f"and judgements of {judged} of this model's, are kept in {self.folder.root}; the "
            "same command goes on from there",
            unavailable_frac=share,
            reasons=reasons,
        )


def _waiting(
    answers: MemoryObjectReceiveStream[Answered], *, most: int
) -> list[Answered]:
    """Take the answers that have arrived already."""
    batch: list[Answered] = []
    with suppress(anyio.WouldBlock, anyio.EndOfStream):
        while len(batch) < most:
            batch.append(answers.receive_nowait())
    return batch
