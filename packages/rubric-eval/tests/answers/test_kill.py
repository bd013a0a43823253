"""A run that is killed goes on without a second generation of what is there."""

import subprocess
import sys
import time
from collections import Counter
from contextlib import aclosing
from pathlib import Path

import anyio

from rubric_core import Decoding
from rubric_eval.answers.collecting import stream_answers
from rubric_eval.answers.store import read_answers
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.responders.opening import open_model
from rubric_eval.responders.spec import parse_model
from rubric_judge.testing import FakeEndpoint, ServedModel

_RUN = """
import sys
from contextlib import aclosing
from pathlib import Path
import anyio
from rubric_core import Criterion, Decoding, Grounding, Rubric, Task
from rubric_eval.answers.collecting import stream_answers
from rubric_eval.records.inputs import EvalFolder
from rubric_eval.responders.opening import open_model
from rubric_eval.responders.spec import parse_model

def tasks():
    rubric = Rubric(criteria=(Criterion(id="a", weight=1.0, description="d"),))
    return [Task(question=f"Question {n}?", grounding=Grounding(f"p{n}"), rubric=rubric)
            for n in range(60)]

async def main(url, out):
    async with await open_model(parse_model(f"model=server:{url}#fake")) as model:
        stream = stream_answers(model, tasks(), folder=EvalFolder(Path(out)), decoding=Decoding(),
                                samples=2)
        async with aclosing(stream):
            async for _ in stream:
                pass

if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(_RUN, "utf-8")
    out = tmp_path / "out"
    path = EvalFolder(out).answers("model", 0)
    given: list[str] = []

    def answer(call: object) -> str:
        given.append(call.messages[0]["content"])  # pyright: ignore[reportAttributeAccessIssue]
        return f"answer {len(given)}"

    # Two rounds of what is asked at once: slow enough to be killed in the middle.
    with FakeEndpoint(served=ServedModel(answer=answer), latency=0.4) as endpoint:
        command = [sys.executable, str(script), endpoint.url, str(out)]
        run = subprocess.Popen(command)
        while not (path.exists() and path.read_bytes().count(b"\n") >= 20):
            assert run.poll() is None, "the run ended before it could be killed"
            time.sleep(0.01)
        run.kill()
        run.wait()
        kept = {(row.task_id, row.sample): row.text for row in read_answers(path)}
        assert 20 <= len(kept) < 120
        before = -1
        while before != len(
            endpoint.calls
        ):  # what the dead process sent may still arrive
            before = len(endpoint.calls)
            time.sleep(0.5)
        assert subprocess.run(command, check=False).returncode == 0

    rows = {(row.task_id, row.sample): row.text for row in read_answers(path)}
    assert len(rows) == 120
    assert {place: rows[place] for place in kept} == kept
    assert len(endpoint.calls) - before == 120 - len(kept)
    assert (
        max(Counter(given).values()) <= 4
    )  # two samples, both of which may have been in flight
    assert len(given) <= 120 + 64  # what one model is asked at once


def test_an_endpoint_that_fails_for_a_while_costs_no_answer_twice(
    tmp_path: Path,
) -> None:
    scope: dict[str, object] = {"__name__": "tasks"}
    exec(_RUN, scope)  # noqa: S102  # the same tasks as the killed run's
    tasks = scope["tasks"]()  # pyright: ignore[reportCallIssue]

    async def run(url: str) -> int:
        spec = parse_model(f"model=server:{url}#fake")
        config = {**spec.options, "max_transport_attempts": 1}
        async with await open_model(
            spec.model_copy(update={"options": config})
        ) as model:
            folder = EvalFolder(tmp_path)
            stream = stream_answers(model, tasks, folder=folder, decoding=Decoding())
            async with aclosing(stream):
                return len([row async for _, row in stream if row.text is None])

    from rubric_judge.testing import Fault

    faults = {Fault.SERVER_ERROR: 0.2, Fault.RESET: 0.2, Fault.HALF_RESPONSE: 0.1}
    left = len(tasks)
    with FakeEndpoint(served=ServedModel(), faults=faults, seed=3) as endpoint:
        while left:
            left = anyio.run(run, endpoint.url)
        good = endpoint.counts[None]
    assert good == len(tasks)
