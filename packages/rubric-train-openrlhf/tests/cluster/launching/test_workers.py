"""What a worker of Ray does first."""

from pathlib import Path

import pytest

from rubric_train_openrlhf.cluster.settings import DIRECTORY, inherited

workers = pytest.importorskip(
    "rubric_train_openrlhf.cluster.launching.workers", exc_type=ImportError
)

pytestmark = pytest.mark.openrlhf
INTERFACE = "GLOO_SOCKET_IFNAME"


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A worker of the node that Ray finds at 127.0.0.1, in another directory than the driver's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "get_node_ip_address", lambda: "127.0.0.1")
    monkeypatch.setenv(INTERFACE, "")
    monkeypatch.delenv(INTERFACE)
    monkeypatch.setenv(DIRECTORY, "/")
    return monkeypatch


def test_a_worker_goes_where_the_driver_is(worker: pytest.MonkeyPatch) -> None:
    del worker
    workers.set_up()
    assert Path.cwd() == Path("/")


def test_a_worker_stays_where_there_is_no_such_folder(
    worker: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worker.setenv(DIRECTORY, "/nowhere")
    workers.set_up()
    assert Path.cwd() == tmp_path


def test_gloo_listens_where_ray_finds_the_node(worker: pytest.MonkeyPatch) -> None:
    del worker
    workers.set_up()
    assert inherited()[INTERFACE].startswith("lo")


def test_what_the_node_was_started_with_stays(worker: pytest.MonkeyPatch) -> None:
    worker.setenv(INTERFACE, "ib0")
    workers.set_up()
    assert inherited()[INTERFACE] == "ib0"


def test_an_address_of_no_interface_is_left_to_gloo(worker: pytest.MonkeyPatch) -> None:
    worker.setattr(workers, "get_node_ip_address", lambda: "192.0.2.1")
    workers.set_up()
    assert INTERFACE not in inherited()
