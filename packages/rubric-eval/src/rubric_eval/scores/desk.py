"""Answers before one judge: taken as they come, each different one asked about once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rubric_core import JudgeResult, Task
    from rubric_eval.records import AnswerRow
    from rubric_judge import JudgePool


_Content: TypeAlias = tuple[str, str]
"""Task and text of an answer: what a judgement depends on."""
_Listener: TypeAlias = "Callable[[JudgeResult], None]"


class JudgeDesk:
    """One judge for the answers of all models.

    The same answer to the same question, whoever gave it, is judged once: what is judged already is
    in the pool's ledger, and what is being judged is waited for.
    """

    def __init__(self, pool: JudgePool, tasks: Mapping[str, Task]) -> None:
        """Prepare; nothing is asked.

        Args:
            pool: of the judge, with a ledger.
            tasks: by id; all that answers may belong to.
        """
        self.tasks = tasks
        """By id."""
        self.at_once = pool.statistics().limit
        """Most calls in flight."""
        self._pool = pool
        self._listeners: dict[_Content, list[_Listener]] = {}

    async def judge(
        self, answers: Sequence[AnswerRow], *, on_result: Callable[[int, JudgeResult], None]
    ) -> None:
        """Judge answers; return when each has its result.

        Args:
            answers: with texts, of any tasks, models and seeds.
            on_result: called once for each, with its index, as its judgement ends.

        Raises:
            LedgerError: the ledger cannot be read.
            Exception: whatever `on_result` raises, this call's or that of another call which waits
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

        views = [self.tasks[task_id].judge_view(text) for task_id, text in contents]
        await self._pool.judge_all(views, on_result=tell)
        if left:  # to what another call asks about
            await all_settled.wait()

    def _listen(
        self, answers: Sequence[AnswerRow], settle: Callable[[int, JudgeResult], None]
    ) -> list[_Content]:
        """Have results reported, and return what nobody asks about yet."""
        contents: list[_Content] = []
        for index, answer in enumerate(answers):
            content = answer.task_id, answer.text or ""
            if content not in self._listeners:
                self._listeners[content] = []
                contents.append(content)
            self._listeners[content].append(
                lambda result, index=index: settle(index, result),
            )
        return contents
