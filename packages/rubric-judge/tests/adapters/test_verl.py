"""The reward for verl: called as its reward loop calls it, and by it."""

import asyncio
import importlib
import inspect
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rubric_core import (
    ConfigError,
    JudgeResult,
    JudgeView,
    Reason,
    SchemaError,
    Task,
    UnavailableRewardError,
)
from rubric_judge.adapters import verl
from rubric_judge.adapters.verl import compute_score
from rubric_judge.testing import FailingJudge, ScriptedJudge

KEYS = [
    *("score", "rubric/score", "rubric/invalid", "rubric/unavailable"),
    *("rubric/thought", "rubric/unclosed_thought", "rubric/empty_answer"),
]


def scored(response: str, **settings: Any) -> dict[str, float | str]:
    """Call the reward as verl does, with the reward kwargs of a configuration."""
    row = {
        "ground_truth": "",
        "extra_info": {"num_turns": None, "rollout_reward_scores": {}},
    }
    return asyncio.run(
        compute_score(
            data_source="rubric", solution_str=response, **{**row, **settings}
        )
    )


def test_a_task_is_named_in_the_extra_info_or_is_the_ground_truth(
    judge_file: str, tasks_file: str, task: Task
) -> None:
    files = {"judge": judge_file, "tasks": tasks_file}
    text = "It is the cross entropy."

    for row in (
        {"extra_info": {"task_id": task.task_id}},
        {"ground_truth": task.task_id},
        {"ground_truth": task.task_id, "extra_info": None},
        {"ground_truth": "a known answer", "extra_info": {"task_id": task.task_id}},
    ):
        assert scored(text, **files, **row)["score"] == 0.75


def test_a_row_may_hold_its_rubric(judge_file: str, row: dict[str, Any]) -> None:
    as_json = {**row, "rubric": json.dumps(row["rubric"])}

    for given in (
        {"extra_info": row},
        {"extra_info": as_json},
        {"ground_truth": json.dumps(row)},
    ):
        assert (
            scored("It is the cross entropy.", judge=judge_file, **given)["score"]
            == 0.75
        )


def test_an_extra_info_that_is_no_mapping_is_named(
    judge_file: str, tasks_file: str
) -> None:
    with pytest.raises(SchemaError, match="columns must be a mapping, not list"):
        scored("y", judge=judge_file, tasks=tasks_file, extra_info=[{"task_id": "x"}])


def test_every_outcome_has_the_same_keys(
    tasks_file: str, tasks: dict[str, Task]
) -> None:
    answers = {
        "fine": 0.5,
        "prose": JudgeResult.invalid(Reason.NOT_JSON),
        "lost": JudgeResult.unavailable(Reason.TIMEOUT),
    }
    judge = ScriptedJudge(lambda view: answers[view.response])

    for task_id in tasks:
        found = {
            response: scored(
                response, judge=judge, tasks=tasks_file, ground_truth=task_id
            )
            for response in answers
        }

        assert [list(one) for one in found.values()] == [KEYS] * 3
        assert [list(one.values()) for one in found.values()] == [
            [0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
        ]


def test_the_record_is_one_more_key_of_every_outcome(
    tasks_file: str, task: Task
) -> None:
    answers = {
        "fine": 0.5,
        "prose": JudgeResult.invalid(Reason.NOT_JSON),
        "lost": JudgeResult.unavailable(Reason.TIMEOUT),
    }
    judge = ScriptedJudge(lambda view: answers[view.response])

    for response in answers:
        info = scored(
            response,
            judge=judge,
            tasks=tasks_file,
            ground_truth=task.task_id,
            log_judgements=True,
        )

        assert list(info) == [*KEYS, "rubric/judgement"]
        record = json.loads(str(info["rubric/judgement"]))
        assert record["shares"] == {"loss": 0.75, "target": 0.25}
        assert ("z" in record) is (response == "fine")


def test_a_judge_that_breaks_its_promise_is_a_key_and_no_exception(
    tasks_file: str, task: Task
) -> None:
    judge = FailingJudge(RuntimeError("a bug"))

    assert scored(
        "y", judge=judge, tasks=tasks_file, ground_truth=task.task_id
    ) == dict(zip(KEYS, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], strict=True))


def test_raise_ends_the_training_where_it_is_asked_for(
    tasks_file: str, task: Task
) -> None:
    row = {"tasks": tasks_file, "ground_truth": task.task_id}

    with pytest.raises(UnavailableRewardError):
        scored("y", judge=FailingJudge(), on_unavailable="raise", **row)


def test_settings_that_cannot_work_fail_at_the_first_call(
    tmp_path: Path, judge_file: str
) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        scored("y", judge=str(tmp_path / "absent.yaml"), ground_truth="t")
    with pytest.raises(
        ConfigError, match=r"reward_kwargs: on_unavailable.*'zero' or 'raise'"
    ):
        scored("y", judge=judge_file, on_unavailable="mask", ground_truth="t")
    with pytest.raises(ConfigError, match="no task has the id 't'"):
        scored("y", judge=judge_file, ground_truth="t")


# --- verl 0.9.1 -----------------------------------------------------------------------------------


class Characters:
    """A tokenizer of one character a token."""

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:  # noqa: FBT001, FBT002
        del skip_special_tokens
        return "".join(chr(int(token)) for token in ids)


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_verl_loads_the_reward_by_its_package_and_judges_a_batch(
    judge_file: str, tasks_file: str, task: Task
) -> None:
    pytest.importorskip("verl")
    import numpy as np
    from omegaconf import OmegaConf
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
    from verl.trainer.ppo.reward import get_custom_reward_fn

    function = {
        "path": "pkg://rubric_judge.adapters.verl",
        "name": "compute_score",
        "reward_kwargs": {"judge": judge_file, "tasks": tasks_file},
    }
    config = OmegaConf.create({"reward": {"custom_reward_function": function}})
    reward = get_custom_reward_fn(config)
    assert inspect.iscoroutinefunction(reward)

    async def batch() -> list[dict[str, Any]]:
        manager = NaiveRewardManager(config, Characters(), reward)
        manager.loop = asyncio.get_running_loop()
        texts = ["It is the cross entropy.", "No idea.", "..."]
        return await asyncio.gather(
            *(manager.run_single(_sample(text, task)) for text in texts)
        )

    outputs = asyncio.run(batch())

    assert [one["reward_score"] for one in outputs] == [0.75, 0.0, 0.0]
    infos = [one["reward_extra_info"] for one in outputs]
    # What the agent loop does with them: the keys of the first, for all.
    gathered = {key: np.array([info[key] for info in infos]) for key in infos[0]}
    assert list(gathered) == KEYS
    assert all(values.dtype == np.float64 for values in gathered.values())


def _sample(text: str, task: Task, *, turns: int | None = None) -> Any:
    """Return one response as verl's rollout hands it to a reward manager."""
    import numpy as np
    import torch
    from tensordict import TensorDict
    from verl import DataProto

    tokens = torch.tensor([[ord(character) for character in text]])
    tensors = {
        "prompts": torch.zeros(1, 2).long(),
        "responses": tokens,
        "attention_mask": torch.ones(1, 2 + tokens.shape[1]).long(),
    }
    rows = {
        "data_source": "rubric",
        "reward_model": {"style": "rubric", "ground_truth": task.task_id},
        "extra_info": {"index": 0},
    }
    columns: dict[str, Any] = {}
    for name, value in rows.items():
        columns[name] = np.empty(1, dtype=object)
        columns[name][0] = value
    if turns is not None:
        columns["__num_turns__"] = np.array([turns], dtype=np.int32)
    return DataProto(batch=TensorDict(tensors, batch_size=1), non_tensor_batch=columns)


@pytest.mark.stacks
@pytest.mark.filterwarnings("ignore")
def test_verl_s_own_manager_hands_over_what_a_tool_said_and_the_warning_is_reached(
    judge_file: str, tasks_file: str, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("verl")
    from omegaconf import OmegaConf
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager

    warned: list[str] = []
    monkeypatch.setattr(
        verl.events, "turns_in_one_text", lambda *, stack: warned.append(stack)
    )
    verl._warn_once.cache_clear()
    # A turn of a user is counted where the text of a tool was added, so that there are three.
    # Its own file: the module needs hydra, which is not installed.
    package = Path(str(importlib.import_module("verl").__file__)).parent
    loop = package / "experimental/agent_loop/tool_agent_loop.py"
    source = loop.read_text("utf-8")
    assert "num_turns=agent_data.user_turns + agent_data.assistant_turns + 1" in source
    # The policy calls a tool and stops; the tool says what the criterion asks for.
    text = (
        "<tool_call>find</tool_call>\ntool\nIt is the cross entropy.\nassistant\nDone."
    )
    reward = partial(compute_score, judge=judge_file, tasks=tasks_file)

    async def scores(turns: int) -> float:
        manager = NaiveRewardManager(OmegaConf.create({}), Characters(), reward)
        manager.loop = asyncio.get_running_loop()
        done = await manager.run_single(_sample(text, task, turns=turns))
        return done["reward_score"]

    assert asyncio.run(scores(2)) == 0.75
    assert warned == []
    assert asyncio.run(scores(3)) == 0.75
    assert asyncio.run(scores(4)) == 0.75
    assert warned == ["verl"]


def test_calls_of_one_process_share_a_bound(tasks_file: str, task: Task) -> None:
    full = asyncio.Event()

    async def until_full(view: JudgeView) -> None:
        del view
        if judge.in_flight == 8:
            full.set()
        await full.wait()

    judge = ScriptedJudge(before=until_full)

    async def many() -> None:
        row = {
            "ground_truth": task.task_id,
            "judge": judge,
            "tasks": tasks_file,
            "workers": 2,
        }
        await asyncio.gather(
            *(compute_score("rubric", f"{i}", **row) for i in range(32))
        )

    asyncio.run(many())

    assert judge.peak_in_flight == 8


def test_what_tools_said_in_a_response_is_warned_of_once(
    judge_file: str, tasks_file: str, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    # verl 0.9.1 decodes all turns into one text, without marks of who wrote what.
    warned: list[str] = []
    monkeypatch.setattr(
        verl.events, "turns_in_one_text", lambda *, stack: warned.append(stack)
    )
    verl._warn_once.cache_clear()
    files = {"judge": judge_file, "tasks": tasks_file, "ground_truth": task.task_id}

    for turns in (None, 2, np.int32(2)):
        scored("x", **files, extra_info={"num_turns": turns})
    assert warned == []
    for _ in range(2):
        scored("x", **files, extra_info={"num_turns": np.int32(4)})
    assert warned == ["verl"]
