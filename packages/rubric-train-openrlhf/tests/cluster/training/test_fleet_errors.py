"""What is said of an engine that Ray does not start again."""

import pytest

pytest.importorskip("ray")
from ray.exceptions import ActorDiedError

from rubric_train_openrlhf.cluster.sampling.fleet import lost_engine

RAISED = (
    "The actor died because of an error raised in its creation task, \x1b[36mray::Engine.__init__()"
    '\x1b[39m (pid=7)\n  File "engine.py", line 3, in __init__\n'
    "ValueError: No available memory for the cache blocks.\n"
)
KILLED = (
    "The actor died unexpectedly before finishing this task.\n\tclass_name: Engine\n"
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR"
)


def died(message: str, *, as_it_started: bool) -> ActorDiedError:
    error = ActorDiedError(None)
    error.error_msg = message
    error._actor_init_failed = as_it_started
    return error


def test_an_engine_that_fails_as_it_starts_says_why() -> None:
    told = str(lost_engine(died(RAISED, as_it_started=True), number=2))
    assert told.startswith(
        "engine 2 cannot be started: ValueError: No available memory for the"
    )
    assert "restarts" not in told


def test_an_engine_that_died_too_often_says_how_it_died_last() -> None:
    told = str(lost_engine(died(KILLED, as_it_started=False), number=0))
    assert "more often than cluster.engines.restarts allows" in told
    assert "Worker exit type: SYSTEM_ERROR" in told
