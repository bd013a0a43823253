"""A held-out evaluation from the first check to the table.

Models answer one after the other, while all judges judge the answers as they come.
"""

import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import cast

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectSendStream

from rubric_core import RubricError
from rubric_core.files import replacing, text_sha256
from rubric_eval.answers.collecting import all_answers, check_weights
from rubric_eval.answers.store import AnswerKeys, read_answers
from rubric_eval.errors import EvalFolderError, HeldoutAbortError
from rubric_eval.heldout.plan import HeldoutPlan
from rubric_eval.heldout.table import HeldoutTable, calibration_of, heldout_table
from rubric_eval.records import files, joining
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.records.run import EvalRun, ModelEntry
from rubric_eval.responders.opening import OpenModel
from rubric_eval.scores.scoring import Answered, AnswerJudge, NamedJudge, Scoring
from rubric_judge import JudgePool, Ledger, LedgerError
from rubric_judge.judges.capabilities import close

_TEMPLATE = "{question}"
"""The question is all that a model is given; its own chat template is part of its identity."""
Answers = AsyncGenerator["Answered"]
"""All answers of one model, each once, with its seed."""


@dataclass(frozen=True)
class HeldoutProgress:
    """Callbacks for the progress of an evaluation."""

    on_answer: Callable[[str], object] = lambda _model: None
    """Called after each answer with the model's name."""
    on_judged: Callable[[str, str], object] = lambda _judge, _model: None
    """Called after each judgement with the names of judge and model."""


@dataclass(frozen=True)
class Work:
    """Judging of all answers by all judges; the files of a model are written when it is done."""

    folder: EvalFolder
    plan: HeldoutPlan
    judges: Sequence[NamedJudge]
    progress: HeldoutProgress
    calibration: Path | None = None
    """File that rewards are corrected by; the folder keeps a copy until it gets another."""

    async def evaluate(self, models: Sequence[OpenModel | ModelEntry]) -> HeldoutTable:
        """Evaluate models that are open, or whose answers are already stored.

        Raises:
            HeldoutAbortError: too many answers or judgements are missing; see `Scoring`.
            RubricError: a model does not run, or a file cannot be used.
            OSError: a file cannot be written.
        """
        folder = self.folder
        entries = [
            model if isinstance(model, ModelEntry) else model.entry for model in models
        ]
        manifest = self._manifest(entries)
        closers = [
            partial(close, replica)
            for judge in self.judges
            for replica in judge.replicas
        ]
        async with joining.closing(*closers):
            with folder.locked():
                run = joining.joined(folder, manifest)
                answers: dict[str, Answers] = {}
                for model in models:
                    if isinstance(model, ModelEntry):
                        answers[model.name] = self._stored(model)
                    else:
                        check_weights(folder, model)
                        answers[model.name] = all_answers(
                            model,
                            self.plan.tasks,
                            folder=folder,
                            decoding=self.plan.decoding,
                            seeds=self.plan.seeds,
                            samples=self.plan.samples,
                        )
                await self._check_judges(entries)
                calibration = None
                if self.calibration is not None:
                    calibration = calibration_of(
                        self.calibration, self.judges, self.plan.tasks
                    )
                with joining.recorded_run(folder, run, table=folder.heldout):
                    if calibration is not None:
                        with replacing(folder.calibration) as file:
                            file.write(calibration)
                    files.write_rows(folder.questions, self.plan.question_rows())
                    with Ledger(folder.ledger) as ledger:
                        await self._judge(answers, ledger)
                    done = _finished(folder, run, manifest)
                    table = heldout_table(folder, done)
                    files.write_json(folder.heldout, table)
                    files.write_finished_run(folder, done)
                return table

    def _manifest(self, models: Sequence[ModelEntry]) -> EvalRun:
        """Return what run.json says of this evaluation alone.

        Raises:
            ConfigError: no model, or two with one name.
        """
        plan = self.plan
        return plan.run_of(
            models,
            packages=("rubric-core", "rubric-judge", "rubric-eval"),
            kind="heldout",
            judges=tuple(judge.entry for judge in self.judges),
            questions={"heldout": plan.questions},
            samples=plan.samples,
            template=text_sha256(_TEMPLATE),
        )

    async def _stored(self, model: ModelEntry) -> Answers:
        """Yield the answers that the folder holds; nothing is generated.

        Raises:
            EvalFolderError: an answer is missing, or a file is damaged.
        """
        answers = list(self._held(model))
        if len(answers) != self.plan.answers:
            raise EvalFolderError(
                f"{self.folder.root} holds {len(answers)} of {self.plan.answers} answers of "
                f"model {model.name!r}: run the command `rubric-eval heldout` that started it "
                "to its end"
            )
        older = [row for _, row in answers if row.holds_thought]
        if older:
            first = older[0].task_id
            raise EvalFolderError(
                f"{self.folder.root}: {len(older)} of {len(answers)} stored answers of model "
                f"{model.name!r} hold their thoughts, as an older version judged them, first "
                f"of task {first}: give the command `rubric-eval heldout` that made the "
                "evaluation again, which asks for these answers anew, or evaluate into a new "
                "folder"
            )
        for answer in answers:
            yield answer

    def _held(self, model: ModelEntry) -> Iterator[Answered]:
        """Yield the answers of a model that the folder holds, with their seeds.

        Raises:
            EvalFolderError: a file is damaged.
        """
        plan = self.plan
        keys = AnswerKeys(model.fingerprint, plan.decoding)
        place = {task_id: at for at, task_id in enumerate(plan.task_ids)}
        for seed in plan.seeds:
            # One step for each stored answer, however many the plan has.
            stored: list[tuple[int, int, files.AnswerRow]] = []
            for row in read_answers(self.folder.answers(model.name, seed)):
                if row.task_id not in place or row.sample >= plan.samples:
                    continue
                at = place[row.task_id]
                key = keys.of(plan.prompts[at], seed=seed, sample=row.sample)
                if row.key == key:
                    stored.append((at, row.sample, row))
            for _, _, row in sorted(stored, key=lambda entry: entry[:2]):
                yield seed, row

    async def _check_judges(self, models: Sequence[ModelEntry]) -> None:
        """Check that each judge is there, unless everything is judged already.

        Raises:
            JudgeSetupError: a judge is not there.
        """
        plan = self.plan
        judges = self.judges
        stored = [answer_row for model in models for _, answer_row in self._held(model)]
        views = [
            plan.by_id[row.task_id].judge_view(row.answer)
            for row in stored
            if row.text is not None
        ]
        if len(views) == plan.answers * len(models) and self.folder.ledger.exists():
            with Ledger(self.folder.ledger) as ledger:
                judges = [
                    judge
                    for judge in judges
                    if not JudgePool(judge.replicas, ledger=ledger).knows(views)
                ]
        for judge in judges:
            await JudgePool(judge.replicas).check()

    async def _judge(self, answers: Mapping[str, Answers], ledger: Ledger) -> None:
        """Collect answers, judge them and write the scores."""
        answer_judges = {
            judge.name: AnswerJudge(
                JudgePool(judge.replicas, workers=self.plan.workers, ledger=ledger),
                self.plan.by_id,
            )
            for judge in self.judges
        }
        try:
            with ExitStack() as open_streams:
                async with anyio.create_task_group() as group:
                    for model, answers_of_model in answers.items():
                        streams = [
                            open_streams.enter_context(
                                self._scored(model, judge, answer_judge, group)
                            )
                            for judge, answer_judge in answer_judges.items()
                        ]
                        await self._collect(model, answers_of_model, streams)
        except BaseExceptionGroup as failures:
            raise _first(failures) from None
        if ledger.unwritten:
            problem = f"{ledger.unwritten} judgements could not be written"
            remedy = "make room, and run the same command again"
            raise LedgerError(f"{problem}: {remedy}", path=ledger.path)

    async def _collect(
        self,
        model: str,
        answers: Answers,
        streams: Sequence[MemoryObjectSendStream[Answered]],
    ) -> None:
        """Have a model answer, and pass each answer to the scorings behind the streams.

        A stream is closed when all answers are in it. If the model fails or is cancelled, it stays
        open: a scoring that saw its end would take the answers so far as all answers.
        """
        async with aclosing(answers):
            async for answer in answers:
                self.progress.on_answer(model)
                for stream in streams:
                    stream.send_nowait(answer)
        for stream in streams:
            stream.close()

    def _scored(
        self, model: str, judge: str, answer_judge: AnswerJudge, group: TaskGroup
    ) -> MemoryObjectSendStream[Answered]:
        """Start a scoring, and return the stream that it takes answers from."""
        send, receive = anyio.create_memory_object_stream["Answered"](math.inf)
        scoring = Scoring(
            folder=self.folder,
            answer_judge=answer_judge,
            judge=judge,
            model=model,
            expected=self.plan.answers,
            max_unavailable_frac=self.plan.max_unavailable_frac,
            on_judged=partial(self.progress.on_judged, judge, model),
            samples=self.plan.samples,
        )

        async def score_and_write() -> None:
            await scoring.run(receive)
            scoring.write(seeds=self.plan.seeds, task_ids=self.plan.task_ids)

        group.start_soon(score_and_write)
        return send


_FOLLOWING = (HeldoutAbortError, anyio.BrokenResourceError)
"""Errors that may follow from another: too few answers to score, and a stream without a reader."""


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the failure that ended the work, not what followed from it."""
    _, others = failures.split(_FOLLOWING)
    known = others and others.subgroup(RubricError)
    first: BaseException = (
        known or others or failures.subgroup(HeldoutAbortError) or failures
    )
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]
    return first


async def run_heldout(
    out: Path,
    plan: HeldoutPlan,
    models: Sequence[OpenModel],
    judges: Sequence[NamedJudge],
    *,
    progress: HeldoutProgress | None = None,
    calibration: Path | None = None,
) -> HeldoutTable:
    """Have models answer the same questions, have all judges judge them, and write the table.

    Answers and judgements that the folder already holds, from a stopped run or a run with other
    models and judges, are not made again.

    Args:
        out: folder of the evaluation, a new one or one of the same questions.
        plan: questions, and how they are asked and judged.
        models: models, which are closed at the end in any case.
        judges: judges from `scores.read_judges`, which are closed too.
        progress: callbacks for the progress.
        calibration: calibration of a judge, by which its rewards are corrected.

    Returns:
        The paper's Table 1, also in heldout.json.

    Raises:
        EvalFolderError: the folder is in use, or holds an evaluation of something else.
        JudgeSetupError: a judge is not there; nothing was written.
        HeldoutAbortError: too many answers have no judgement; finished work is kept.
        ConfigError, ResponderError, LedgerError, EvalWriteError, OSError: a part of the
            evaluation failed.
    """
    work = Work(
        EvalFolder(out), plan, judges, progress or HeldoutProgress(), calibration
    )
    async with joining.closing(*(model.aclose for model in models)):
        return await work.evaluate(models)


async def rejudge_heldout(
    out: Path,
    plan: HeldoutPlan,
    judges: Sequence[NamedJudge],
    *,
    progress: HeldoutProgress | None = None,
) -> HeldoutTable:
    """Have judges judge the answers of all models that a folder holds; nothing is generated.

    Args:
        out: folder of an evaluation.
        plan: plan of that evaluation; see `plan_of`.
        judges: new judges, or those whose work is to be completed.
        progress: callbacks for the progress.

    Returns, Raises:
        As `run_heldout`; EvalFolderError also if answers are missing.
    """
    work = Work(EvalFolder(out), plan, judges, progress or HeldoutProgress())
    return await work.evaluate(files.read_run(work.folder).models)


def _finished(folder: EvalFolder, run: EvalRun, manifest: EvalRun) -> EvalRun:
    """Return the manifest of the finished models and judges.

    A model or judge that an earlier run began but did not finish is left out: its answers and
    judgements stay in the folder, and are reused if it is requested again.
    """
    models = {entry.name for entry in manifest.models}
    judges = {entry.name for entry in manifest.judges}
    for model, judge in product(run.models, run.judges):
        if folder.has_scores(run, judge=judge.name, model=model.name):
            models.add(model.name)
            judges.add(judge.name)
    return joining.finished(
        run,
        models=tuple(model for model in run.models if model.name in models),
        judges=tuple(judge for judge in run.judges if judge.name in judges),
    )
