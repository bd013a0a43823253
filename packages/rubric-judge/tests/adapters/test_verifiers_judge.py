"""The judge `rubric-rewards` of verifiers: named in a configuration, and run by `vf-eval`."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rubric_core import ConfigError, MissingExtraError, Task, normalized_reward
from rubric_judge import JudgePool, LexicalJudge
from rubric_judge.adapters.verifiers import judge_plugin
from rubric_judge.testing import FakeEndpoint, Fault

ANSWERS = {
    "full": "It is the cross entropy of the targets.",
    "half": "It is the cross entropy.",
    "none": "No idea.",
}

TASKSET = '''
"""A taskset as others publish them: it knows nothing of this judge."""

import json
import verifiers.v1 as vf

__all__ = ["ForeignTaskset"]


class Data(vf.TaskData):
    answer: str = ""
    criteria: list[dict] = []


class ForeignTask(vf.Task[Data]):
    @vf.reward(weight=0.0)
    async def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class ForeignTaskset(vf.Taskset[ForeignTask, vf.TasksetConfig]):
    def load(self):
        with open("rows.jsonl") as lines:
            rows = [json.loads(line) for line in lines]
        return [ForeignTask(Data(**row), self.config.task) for row in rows]
'''


class Policy(BaseHTTPRequestHandler):
    """A model that answers each prompt by its last word."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        body = json.loads(self.rfile.read(length))
        asked = body["messages"][-1]["content"]
        text = asked if isinstance(asked, str) else asked[0]["text"]
        message = {"role": "assistant", "content": ANSWERS[text.split()[-1]]}
        reply: dict[str, Any] = {
            "id": "1",
            "created": 0,
            "model": body["model"],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        choice = {"index": 0, "finish_reason": "stop"}
        if body.get("stream"):
            kind, part = "text/event-stream", "chat.completion.chunk"
            reply |= {"object": part, "choices": [{**choice, "delta": message}]}
            content = f"data: {json.dumps(reply)}\n\ndata: [DONE]\n\n"
        else:
            kind = "application/json"
            reply |= {"choices": [{**choice, "message": message}]}
            content = json.dumps({**reply, "object": "chat.completion"})
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content.encode())))
        self.end_headers()
        self.wfile.write(content.encode())


@pytest.fixture
def policy_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Policy) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


def evaluated(folder: Path, policy_url: str, judges: str) -> list[dict[str, Any]]:
    """Run `vf-eval` on a configuration; return the traces, by the order of the tasks."""
    (folder / "foreign.py").write_text(TASKSET, encoding="utf-8")
    (folder / "eval.toml").write_text(
        'model = "policy"\npush = false\noutput_dir = "runs"\n'
        '[run]\ndir = "one"\n'
        '[env.taskset]\nid = "foreign"\n'
        f"{judges}\n"
        '[env.agent.harness]\nid = "null"\n'
        '[env.agent.runtime]\ntype = "subprocess"\n'
        f'[client]\nbase_url = "{policy_url}"\napi_key_var = "HOME"\n',
        encoding="utf-8",
    )
    command = [str(Path(sys.executable).parent / "vf-eval"), "@", "eval.toml"]
    done = subprocess.run(
        [*command, "--no-rich"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    lines = (folder / "runs/one/traces.jsonl").read_text("utf-8").splitlines()
    assert lines, done.stderr[-3000:]
    episodes = [json.loads(line) for line in lines]
    traces = [
        trace for episode in episodes for trace in episode.get("traces") or [episode]
    ]
    return sorted(traces, key=lambda trace: trace["task"]["data"]["idx"])


def write_rows(folder: Path, **fields: object) -> None:
    rows = [{"prompt": f"Which loss? Answer: {kind}", **fields} for kind in ANSWERS]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "rows.jsonl").write_text(lines, encoding="utf-8")


def expected(task: Task) -> list[float]:
    """The rewards by our own pool."""

    async def judge() -> list[float]:
        pool = JudgePool(LexicalJudge())
        views = [task.judge_view(answer) for answer in ANSWERS.values()]
        results = await pool.judge_all(views)
        await pool.aclose()
        return [normalized_reward(result, task.rubric) for result in results]

    return asyncio.run(judge())


@pytest.mark.stacks
@pytest.mark.parametrize("source", ["ids", "one rubric", "field"])
def test_a_foreign_taskset_is_judged_by_a_configuration_alone(
    source: str, task: Task, tasks_file: str, policy_url: str, tmp_path: Path
) -> None:
    pytest.importorskip("verifiers.v1")
    (tmp_path / "judge.yaml").write_text("type: lexical\n", encoding="utf-8")
    criteria = task.rubric.reveal()
    (tmp_path / "rubric.json").write_text(json.dumps(criteria), encoding="utf-8")
    fields, named, metrics = {
        "ids": (
            {"id": task.task_id},
            f'rubrics = "{tasks_file}"',
            {"ours/loss", "ours/target"},
        ),
        "one rubric": ({}, 'rubrics = "rubric.json"', {"ours/loss", "ours/target"}),
        "field": (
            {"criteria": criteria},
            'rubric_field = "criteria"',
            {"ours/kind.none"},
        ),
    }[source]
    write_rows(tmp_path, **fields)

    traces = evaluated(
        tmp_path,
        policy_url,
        '[[env.taskset.task.judges]]\nid = "rubric-rewards"\nname = "ours"\nweight = 2.0\n'
        f'judge = "judge.yaml"\n{named}',
    )

    rewards = [trace["rewards"]["ours"] for trace in traces]
    assert [reward["score"] for reward in rewards] == pytest.approx(expected(task))
    assert {reward["weight"] for reward in rewards} == {2.0}
    assert [trace["metrics"]["ours/score"] for trace in traces] == [
        reward["score"] for reward in rewards
    ]
    assert all(metrics <= trace["metrics"].keys() for trace in traces)
    assert [trace["errors"] for trace in traces] == [[], [], []]
    assert traces[0]["rewards"]["length"]["weight"] == 0.0


@pytest.mark.stacks
def test_a_lost_judgement_is_an_error_of_the_rollout_and_no_zero(
    task: Task, tasks_file: str, policy_url: str, tmp_path: Path
) -> None:
    pytest.importorskip("verifiers.v1")
    write_rows(tmp_path, id=task.task_id)
    # The first call asks whether the judge is there.
    faults = [None, *[Fault.SERVER_ERROR] * 20]
    with FakeEndpoint(1.0, faults=faults) as endpoint:
        (tmp_path / "judge.yaml").write_text(
            f"type: llm\nmodel: openai/fake\napi_base: {endpoint.url}\n"
            "max_transport_attempts: 1\n",
            encoding="utf-8",
        )
        traces = evaluated(
            tmp_path,
            policy_url,
            '[[env.taskset.task.judges]]\nid = "rubric-rewards"\n'
            f'judge = "judge.yaml"\nrubrics = "{tasks_file}"',
        )

    assert [trace["rewards"]["rubric-rewards"] for trace in traces] == [None] * 3
    errors = [trace["errors"][-1] for trace in traces]
    assert {error["type"] for error in errors} == {"TaskError"}
    messages = [error["message"] for error in errors]
    assert all("UnavailableRewardError" in message for message in messages), messages
    assert not any(trace["ok"] for trace in traces)


@pytest.mark.stacks
@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ({"model": "gpt"}, "`model` is a setting of verifiers' own judges"),
        ({"prompt": "a.txt"}, "`prompt` is a setting of verifiers' own judges"),
        ({"rubric_field": "criteria"}, "`rubrics` and `rubric_field` are both given"),
        ({"rubric": "a.json"}, "rubric"),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(
    setting: dict[str, str], problem: str, tmp_path: Path
) -> None:
    vf = pytest.importorskip("verifiers.v1")
    (tmp_path / "a.txt").touch()
    entry = {"id": "rubric-rewards", "judge": "judge.yaml", "rubrics": "dataset"}

    with pytest.raises(ValueError, match=problem):
        vf.TaskConfig.model_validate({"judges": [{**entry, **setting}]})


def test_the_plugin_is_loaded_by_verifiers_alone() -> None:
    script = (
        "import sys, rubric_judge, rubric_judge.adapters.verifiers\n"
        "assert not {'rubric_rewards', 'verifiers'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_without_verifiers_the_plugin_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "verifiers.v1", None)
    judge_plugin.cache_clear()

    with pytest.raises(MissingExtraError, match=r"pip install 'verifiers>=0\.4,<0\.5'"):
        judge_plugin()


def test_a_release_without_pluggable_judges_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = ModuleType("verifiers.v1")
    vars(old).update(Task=object, TaskData=object, Trace=object, Usage=object)
    monkeypatch.setitem(sys.modules, "verifiers", ModuleType("verifiers"))
    monkeypatch.setitem(sys.modules, "verifiers.v1", old)
    judge_plugin.cache_clear()

    with pytest.raises(ConfigError, match=r"has no verifiers\.v1\.Judge: .* for 0\.4"):
        judge_plugin()
