"""How long a coordinator that died is waited for; it is a stand-in with a clock of its own."""

from types import SimpleNamespace

import pytest

from rubric_train_openrlhf.cluster.sampling.samples import Verdict
from rubric_train_openrlhf.errors import ClusterError

pytest.importorskip("ray")
from ray.exceptions import ActorUnavailableError

from rubric_train_openrlhf.cluster.sampling import judge_calls

pytestmark = pytest.mark.anyio
VERDICT = Verdict("task:key", 0.5)


class AnsweredError(Exception):
    """A call was made again: Ray's `get` takes no answer of a stand-in."""


class MortalCoordinator:
    """Dies over calls that took a while, and comes back after some of them."""

    def __init__(self, *, call_s: float, deaths: int) -> None:
        self.judge = SimpleNamespace(remote=self._judge)
        self.credit = SimpleNamespace(remote=self._credit)
        self.now_s = 0.0
        self._call_s = call_s
        self._deaths = deaths

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    async def _judge(self, task_id: str, response: str) -> Verdict:
        del task_id, response
        self._die()
        return VERDICT

    def _credit(self) -> None:
        self._die()
        raise AnsweredError

    def _die(self) -> None:
        self.now_s += self._call_s
        if self._deaths:
            self._deaths -= 1
            raise ActorUnavailableError("away", actor_id=None)


@pytest.fixture
def mortal(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> MortalCoordinator:
    coordinator = MortalCoordinator(**request.param)
    clock = SimpleNamespace(
        monotonic=lambda: coordinator.now_s, sleep=coordinator.sleep
    )
    monkeypatch.setattr(judge_calls, "time", clock)
    monkeypatch.setattr(judge_calls, "_TRY_AGAIN_S", 0.0)
    return coordinator


LONG_CALL = {"call_s": 2 * judge_calls.PATIENCE_S, "deaths": 1}
STAYS_AWAY = {"call_s": judge_calls.PATIENCE_S / 10, "deaths": 1000}


@pytest.mark.parametrize("mortal", [LONG_CALL], indirect=True)
async def test_a_coordinator_that_dies_over_a_long_call_is_waited_for(
    mortal: MortalCoordinator,
) -> None:
    assert await judge_calls.verdict_of(mortal, "task", "because") == VERDICT


@pytest.mark.parametrize("mortal", [LONG_CALL], indirect=True)
def test_a_long_question_about_groups_is_asked_again(mortal: MortalCoordinator) -> None:
    with pytest.raises(AnsweredError):
        judge_calls.ask(mortal.credit)


@pytest.mark.parametrize("mortal", [STAYS_AWAY], indirect=True)
async def test_a_coordinator_that_stays_away_is_not_waited_for_for_ever(
    mortal: MortalCoordinator,
) -> None:
    assert (await judge_calls.verdict_of(mortal, "task", "because")).reward is None
    with pytest.raises(ClusterError, match="does not answer"):
        judge_calls.ask(mortal.credit)
    assert mortal.now_s < 3 * judge_calls.PATIENCE_S
