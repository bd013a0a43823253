"""Language models as judges of all responses to a task in one call."""

import hashlib
from collections.abc import Sequence
from string import ascii_uppercase

from rubric_core import JudgeResult, JudgeView
from rubric_core.errors import ReplyError
from rubric_core.judgement.call import call_shares
from rubric_core.judgement.reply import read_group_reply
from rubric_judge import events
from rubric_judge.config import ListwiseConfig
from rubric_judge.judges.capabilities import check_group, group_identity
from rubric_judge.judges.llm.judge import ModelJudge, unavailable_if_cut
from rubric_judge.judges.llm.prompt import Prompt, load_prompt
from rubric_judge.judges.llm.replies import group_reply_model


class ListwiseJudge(ModelJudge[ListwiseConfig]):
    """Scores the responses to a task side by side; a `GroupJudge`.

        r_i = Σ_j s_ij / W  for every response i, if the whole reply is valid;  else 0 for all

    The model sees the responses as A, B, C, … in an order that is drawn from their content: it does
    not follow the order of the rows, and differs between groups. One departure from the contract
    makes every judgement of the group invalid.

    Close it with `aclose`, or use it as an asynchronous context manager.
    """

    def _load_prompt(self) -> Prompt:
        return load_prompt("listwise")

    @property
    def max_group(self) -> int:
        """Most different responses in one call."""
        return self._config.max_group

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Judge one response alone: a group of one."""
        (result,) = await self.judge_group([view])
        return result

    async def judge_group(self, views: Sequence[JudgeView]) -> list[JudgeResult]:
        """Judge different responses to one task; see `GroupJudge.judge_group`.

        Raises:
            JudgeSetupError, ValueError: as `check_group`.
        """
        check_group(self, views)
        seed = group_identity(view.identity for view in views)
        order = sorted(
            range(len(views)), key=lambda n: _draw(views[n].response, seed=seed)
        )
        names = _letters(len(views))
        named_views = {
            name: views[place] for name, place in zip(names, order, strict=True)
        }
        rendered = self._prompt.render_group(
            named_views, seed=seed, passage_chars=self._config.passage_chars
        )
        rubric = views[0].rubric
        task_id = views[0].task_id
        answer = await self._ask(
            rendered, group_reply_model(rubric, names), task_id=task_id
        )
        if answer.failure:
            by_name = dict.fromkeys(names, answer.failure)
        else:
            by_name = _read(views[0], names, answer.text)
        for name, result in by_name.items():
            by_name[name] = self._with_reply_text(
                unavailable_if_cut(result, answer), answer.text
            )
        events.call_finished(
            by_name[names[0]].with_call(**answer.call), task_id=task_id
        )
        shares = call_shares(answer.call, len(views))
        results = dict(zip(order, (by_name[name] for name in names), strict=True))
        return [results[place].with_call(**share) for place, share in enumerate(shares)]


def _read(view: JudgeView, names: Sequence[str], text: str) -> dict[str, JudgeResult]:
    try:
        reply = read_group_reply(view.rubric, names, text)
    except ReplyError as error:
        return dict.fromkeys(
            names, JudgeResult.invalid(error.reason, detail=str(error))
        )
    return {
        name: JudgeResult.scored(
            view.rubric,
            reply.scores[name],
            judge="",
            reasoning=f"Response {name} of {len(names)}. {reply.reasoning}".rstrip(),
        )
        for name in names
    }


def _draw(response: str, *, seed: str) -> bytes:
    """Return a response's lot for its place, which depends on the others too."""
    return hashlib.sha256(f"{seed}\x1f{response}".encode()).digest()


def _letters(count: int) -> list[str]:
    """Return A, B, …, Z, AA, AB, …."""
    letters = list(ascii_uppercase)
    return (letters + [first + second for first in letters for second in letters])[
        :count
    ]
