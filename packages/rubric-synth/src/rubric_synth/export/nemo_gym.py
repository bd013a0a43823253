"""NeMo Gym: a resources server, an environment with its manifest, and fixtures of its verifier.

environments/MODULE/        manifest.yaml, config.yaml, data/SPLIT.jsonl: the policy's side
resources_servers/MODULE/   app.py, and tests/ with answers of known worth
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from rubric_judge.adapters.ties import tied_reward
from rubric_judge.config import is_program
from rubric_judge.quality.fixtures.checking import Checked
from rubric_judge.quality.fixtures.rows import Expected
from rubric_synth.config import reader_of
from rubric_synth.export.environment import Environment, File, Side, Target
from rubric_synth.export.package import template
from rubric_synth.files import json_line

_LISTED = ("train", "validation")
"""Splits that the configuration names; the test split is written, and named by whoever needs it."""
_INIT = b'"""Made by `rubric-synth export`."""\n'

_USAGE = """\
In this folder, with NeMo Gym installed:

```bash
gym env validate {module}       # the manifest, the configuration and the rows
gym env test {module}           # its verifier fixtures
gym eval run --environment {module} --model-type vllm_model --model MODEL \\
    --model-url http://127.0.0.1:8000/v1 --model-api-key KEY --split train \\
    --output rollouts.jsonl
```

Or elsewhere, with `--search-dir` of this folder. `reward_components` has a place for each criterion
of the longest rubric, so that its names are the same for every task; the components of a reward add
up to it. A judgement that failed is a `JudgeError`: the row is masked, and no reward.

Gym installs an environment for each of its servers: they need `rubric-judge` from your index, or
`UV_FIND_LINKS`, and on `PATH` the Python that Gym runs on, outside of any virtual environment.
`+uv_cache_dir=$(uv cache dir)` spares it the downloads. Install Gym alone, and not this folder
beside it: a folder made for verifiers too asks for another release of `openai`.
`environments/{module}/data/test.jsonl` is in no configuration, so that nothing trains on it. Before
`gym env publish`, say the licence of the documents in `manifest.yaml`."""


class _Dataset(NamedTuple):
    """A file of rows, as manifest and configuration name it."""

    name: str
    type: str
    path: str


def _files(environment: Environment) -> Iterator[File]:
    workload = PurePosixPath("environments", environment.module)
    server = PurePosixPath("resources_servers", environment.module)
    datasets = [
        _Dataset(
            f"{environment.module}_{split}", split, f"{workload}/data/{split}.jsonl"
        )
        for split in _LISTED
        if environment.splits.get(split)
    ]
    is_seeded = _is_seeded(environment)
    values = {
        "e": environment,
        "datasets": datasets,
        "determinism": "seeded" if is_seeded else "unknown",
    }

    def written(path: PurePosixPath, name: str, side: Side = "policy") -> File:
        return File(path, template(name, values), side)

    yield File(workload / "__init__.py", _INIT)
    yield written(workload / "manifest.yaml", "gym_manifest.yaml.j2")
    yield written(workload / "config.yaml", "gym_config.yaml.j2")
    for split in environment.splits:
        path = workload / "data" / f"{split}.jsonl"
        yield File(path, b"".join(_rows(environment, split)))
    yield File(server / "__init__.py", _INIT)
    yield written(server / "app.py", "gym_app.py.j2")
    config = server / "configs" / f"{environment.module}.yaml"
    yield written(config, "gym_server.yaml.j2")
    yield File(server / "requirements.txt", b"nemo-gym[dev]>=0.7,<0.8\nrubric-judge\n")
    if environment.figures is not None:
        cases = b"".join(map(json_line, _cases(environment, is_seeded=is_seeded)))
        yield File(server / "tests" / "verifier_cases.jsonl", cases, side="judge")


def _is_seeded(environment: Environment) -> bool:
    """Return whether its judge gives an answer the same reward whenever it is asked."""
    return is_program(reader_of(environment.judge_spec))


def _rows(environment: Environment, split: str) -> Iterator[bytes]:
    for view in environment.views(split):
        yield json_line({**_asked(view.message), "task_id": view.task_id})


def _asked(message: str) -> dict[str, object]:
    message_of_user = {"role": "user", "content": message}
    return {"responses_create_params": {"input": [message_of_user]}}


def _cases(
    environment: Environment, *, is_seeded: bool
) -> Iterator[Mapping[str, object]]:
    """Yield the fixtures that were judged, in Gym's words; it has none for "little".

    An answer that earned something, and must earn little, is a case of determinism with that
    reward, where the judge is a program.
    """
    checked = () if environment.figures is None else environment.figures.report.checked
    views = {
        view.task_id: view
        for split in environment.splits
        for view in environment.views(split)
    }
    for judged in checked:
        fixture = judged.fixture
        kind = _kind_of(judged, is_seeded=is_seeded)
        if kind is None or fixture.task_id not in views:
            continue
        case = {
            "name": f"{fixture.name} of {fixture.task_id}",
            "kind": kind,
            "request": {
                **_asked(views[fixture.task_id].message),
                "response": _response(fixture.response),
                "task_id": fixture.task_id,
            },
            "expected_reward": tied_reward(judged.reward or 0.0),
        }
        yield case
        if is_seeded and kind == "full_reward":
            yield {**case, "name": f"{case['name']}, again", "kind": "determinism"}
    view = next(iter(views.values()))
    yield {
        "name": "no response",
        "kind": "malformed",
        "request": {**_asked(view.message), "task_id": view.task_id},
        "expected_error": "response",
    }


def _kind_of(checked: Checked, *, is_seeded: bool) -> str | None:
    """Return Gym's word for a fixture that passed; None where it has none."""
    if checked.reward is None or checked.problem:
        return None
    if checked.fixture.expect is Expected.FULL:
        return "full_reward"
    if checked.reward == 0:
        return "zero_reward"
    return "determinism" if is_seeded else None


def _response(text: str) -> dict[str, object]:
    """Return an answer as the response of a model."""
    part: dict[str, object] = {"type": "output_text", "text": text, "annotations": []}
    message: dict[str, object] = {
        "id": "message",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    return {
        "id": "response",
        "created_at": 0,
        "model": "fixture",
        "object": "response",
        "output": [message],
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
    }


TARGET = Target(
    name="nemo-gym",
    stack="nemo-gym==0.7.0",
    files=_files,
    usage=_USAGE,
)
