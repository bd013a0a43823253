"""Harbor: a folder for each task, whose verifier is our judge in a container of its own.

    harbor/SPLIT/TASK_ID/instruction.md, task.toml, environment/   what an agent gets
                         solution/    the reference answer, for Harbor's oracle
                         tests/       judge, task, and the image that judges

The verifier's image holds the tests and is not the agent's; the answer alone passes between them.
"""

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import cast

from rubric_core import PolicyView, Task
from rubric_core.formats.harbor import OWN_TASK
from rubric_judge.config import is_program
from rubric_synth.config import reader_of
from rubric_synth.export.environment import Environment, File, Target
from rubric_synth.files import json_line

_ANSWER = "/app/answer.md"
_FOLDER = "/logs/verifier"
_IMAGE = "python:3.12-slim"
_ASKED = f"""

Write your answer, and nothing else, to the file `{_ANSWER}`.
"""
_TEST = f"""\
#!/bin/sh
# Without a judgement there is no reward.json: a RewardFileNotFoundError, never a reward of 0.
exec python3 "$(dirname "$0")/verify.py" {_ANSWER} {_FOLDER}
"""
_SOLVE = f"""\
#!/bin/sh
cp "$(dirname "$0")/answer.md" {_ANSWER}
"""
_VERIFY = '''\
"""The verifier: our judge, on the answer that the agent left."""

import sys
from pathlib import Path

from rubric_judge.adapters.harbor import write_rewards

TESTS = Path(__file__).resolve().parent


if __name__ == "__main__":
    answer, folder = sys.argv[1:]
    rewards = write_rewards(
        answer, folder=folder, judge=TESTS / "judge.yaml", tasks=TESTS / "RUBRIC_TASK"
    )
    print(rewards)
'''.replace("RUBRIC_TASK", OWN_TASK)

_USAGE = """\
`harbor/SPLIT` is a folder of tasks. Each verifier runs in a container of its own, built from the
task's `tests/`, and writes `reward.json`: `reward`, and `rubric/ID` for each criterion.

```bash
harbor run --path harbor/{split} --agent oracle      # the reference answers: a reward of 1
harbor run --path harbor/{split} --agent nop         # no answer: 0
harbor run --path harbor/train --agent terminus-2 --model openai/NAME
```

A judge that failed writes no reward: the trial has a `RewardFileNotFoundError`, and its
`reward_valid` is false. Train on trials whose `reward_valid` is true. Harbor's own mean counts the
others as 0 up to 0.25, and leaves them out since 0.26; a criterion that a task does not have counts
as 0 in both."""


def _files(environment: Environment) -> Iterator[File]:
    for split, tasks in environment.splits.items():
        views = environment.views(split)
        for task, view in zip(tasks, views, strict=True):
            folder = PurePosixPath("harbor", split, task.task_id)
            yield from _policy_files(environment, folder, view)
            yield from _judge_files(environment, folder, task)


def _policy_files(
    environment: Environment, folder: PurePosixPath, view: PolicyView
) -> Iterator[File]:
    yield _file(folder / "instruction.md", view.message + _ASKED)
    yield _file(folder / "task.toml", _config(environment, view.task_id))
    yield _file(folder / "environment" / "Dockerfile", f"FROM {_IMAGE}\nWORKDIR /app\n")


def _judge_files(
    environment: Environment, folder: PurePosixPath, task: Task
) -> Iterator[File]:
    tests = folder / "tests"
    row = json_line(task.to_json(reveal_grounding=True))
    yield File(tests / OWN_TASK, row, side="judge")
    for name, content in environment.judge_files.items():
        yield File(tests / name, content, side="judge")
    for name, text in (
        ("Dockerfile", _dockerfile(environment)),
        ("test.sh", _TEST),
        ("verify.py", _VERIFY),
    ):
        yield File(tests / name, text.encode(), side="judge")
    if task.reference_answer:
        solution = folder / "solution"
        yield File(solution / "solve.sh", _SOLVE.encode(), side="judge")
        yield File(solution / "answer.md", task.reference_answer.encode(), side="judge")


def _file(path: PurePosixPath, text: str) -> File:
    return File(path, text.encode())


def _dockerfile(environment: Environment) -> str:
    extra = "" if _is_program(environment) else "[litellm]"
    judge = f"rubric-judge{extra}=={version('rubric-judge')}"
    return f"FROM {_IMAGE}\nRUN pip install --no-cache-dir '{judge}'\nCOPY . /tests/\n"


def _config(environment: Environment, task_id: str) -> str:
    """Return task.toml: the judge gets the network and the keys that it needs, and no more."""
    network = "no-network" if _is_program(environment) else "public"
    lines = [
        'schema_version = "1.4"',
        f"artifacts = [{_quoted(_ANSWER)}]",
        "",
        "[task]",
        f"name = {_quoted(f'{environment.name}/{task_id}')}",
        "",
        "[environment]",
        'workdir = "/app"',
        "",
        "[verifier]",
        'environment_mode = "separate"',
        "timeout_sec = 900.0",
        "",
        "[verifier.environment]",
        f"network_mode = {_quoted(network)}",
    ]
    keys = sorted(set(_key_names(environment.judge_spec.model_dump(mode="json"))))
    if keys:
        lines += ["", "[verifier.env]"]
        lines += [f"{name} = {_quoted('${' + name + '}')}" for name in keys]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a text as a basic string of TOML."""
    return json.dumps(text)


def _is_program(environment: Environment) -> bool:
    return is_program(reader_of(environment.judge_spec))


def _key_names(value: object) -> Iterator[str]:
    """Yield the variables that hold keys, of a judge and of those that it holds."""
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            if name == "api_key_env" and isinstance(inner, str):
                yield inner
            else:
                yield from _key_names(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _key_names(inner)


TARGET = Target(
    name="harbor",
    stack="harbor==0.26.0",
    files=_files,
    usage=_USAGE,
)
