import pytest

from rubric_train_openrlhf.cluster.rehearse.judge import why_only_there
from rubric_train_openrlhf.config.cluster import ClusterConfig

NETWORK = "in the cluster's own network"
GPUS = "on the GPUs that the run leaves to it"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (None, ""),
        ("https://api.example.com/v1", ""),
        ("http://judge.invalid:8000/v1", ""),
        ("http://9.9.9.9:8000/v1", ""),
        ("http://[2620:fe::fe]:8000/v1", ""),
        ("http://localhost:8000/v1", GPUS),
        ("http://127.0.0.2:8000/v1", GPUS),
        ("http://0.0.0.0:8000/v1", GPUS),
        ("http://[::1]:8000/v1", GPUS),
        ("http://10.0.0.1:8000/v1", NETWORK),
        ("http://172.31.0.1:8000/v1", NETWORK),
        ("http://192.168.1.1:8000/v1", NETWORK),
        ("http://[fd00::1]:8000/v1", NETWORK),
        ("http://judge-0:8000/v1", NETWORK),
        ("http://judge.ml.svc:8000/v1", NETWORK),
        ("http://judge.ml.svc.cluster.local:8000/v1", NETWORK),
        ("http://gpu7.internal:8000/v1", NETWORK),
    ],
)
def test_servers_that_only_the_cluster_reaches(address: str | None, why: str) -> None:
    cluster = ClusterConfig(gpus_per_node=8, judge_gpus_per_node=4)
    assert why_only_there(address, cluster) == why


@pytest.mark.parametrize(
    "address", ["http://localhost:8000/v1", "http://127.0.0.1:8000/v1"]
)
def test_nothing_of_the_run_serves_its_own_machine_s_address(address: str) -> None:
    assert why_only_there(address, ClusterConfig(gpus_per_node=8)) == ""


def test_a_run_on_this_machine_s_cpu_reaches_what_this_machine_reaches() -> None:
    cluster = ClusterConfig(device="cpu")
    assert why_only_there("http://10.0.0.1:8000/v1", cluster) == ""
