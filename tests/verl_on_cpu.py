"""What verl 0.9 asks of a GPU, answered by a CPU; `VERL_USE_EXTERNAL_MODULES=verl_on_cpu` loads it.

verl imports such a module in each of its processes. This one adds a platform and a rollout to
verl's own registries, and for them a process group of gloo alone. Data, agent loop, rewards,
advantages, loss and optimiser stay verl's. `actor_rollout_ref.rollout.name=transformers` takes the
rollout; Ray is told of a GPU that is not there, for verl counts its workers by them.

Each batch of an update is appended to the file that `VERL_ON_CPU_UPDATES` names, a line a batch.
"""

from __future__ import annotations

import functools
import json
import os
import zlib
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import ray
import torch
import verl.utils.distributed
import verl.utils.import_utils
from verl.plugin.platform import PlatformBase, PlatformRegistry, set_platform
from verl.workers.rollout import base, replica

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

NAME = "transformers"
"""Name of the rollout."""


def _device_module() -> ModuleType:
    """Return torch.cpu with the calls of torch.cuda that verl makes."""
    module = ModuleType("torch.cpu")
    vars(module).update(
        {name: value for name, value in vars(torch.cpu).items() if name[0] != "_"}
    )
    nothing = {
        "empty_cache": None,
        "get_device_name": "cpu",
        "max_memory_allocated": 0,
        "max_memory_reserved": 0,
        "mem_get_info": (0, 0),
        "memory_allocated": 0,
        "memory_reserved": 0,
    }
    for name, answer in nothing.items():
        vars(module)[name] = functools.partial(_answer, answer)
    return module


def _answer(answer: Any, *_: object, **__: object) -> Any:
    return answer


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def current_device(self) -> Any:
        return "cpu"  # what verl hands to `Tensor.to`

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        del device_index
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Generator[None]:
        del msg
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        return "GPU"  # verl counts no other but Ascend's

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        pass


class Server:
    """One actor of Ray that draws responses by a model of transformers."""

    def __init__(self, path: str, response_length: int) -> None:
        from transformers import AutoModelForCausalLM

        self._model = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        self._length = response_length
        self._step: int | None = None
        self._asked: Counter[str] = Counter()

    async def generate(
        self,
        request_id: str,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        **_: object,
    ) -> replica.TokenOutput:
        """Draw one response; which one hangs on no order of requests."""
        del request_id
        asked = f"{self._step} {list(prompt_ids)}"
        self._asked[asked] += 1
        seed = zlib.crc32(f"{asked} {self._asked[asked]}".encode())
        drawn = self._drawn(
            list(prompt_ids),
            float(sampling_params["temperature"]),
            torch.Generator().manual_seed(seed),
        )
        tokens, log_probs = zip(*drawn, strict=True)
        return replica.TokenOutput(
            token_ids=tokens,
            log_probs=log_probs,
            stop_reason="completed",
            extra_fields={"global_steps": self._step},
        )

    @torch.no_grad()
    def _drawn(
        self, prompt: list[int], temperature: float, generator: torch.Generator
    ) -> list[tuple[int, float]]:
        """Return the tokens and their log-probabilities; temperature 0 takes the likeliest."""
        drawn: list[tuple[int, float]] = []
        ids, cache = torch.tensor([prompt]), None
        while len(drawn) < self._length:
            out = self._model(input_ids=ids, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            log_probs = (out.logits[0, -1] / (temperature or 1.0)).log_softmax(-1)
            token = int(
                torch.multinomial(log_probs.exp(), 1, generator=generator)
                if temperature
                else log_probs.argmax()
            )
            drawn.append((token, float(log_probs[token])))
            if token == self._model.config.eos_token_id:
                break
            ids = torch.tensor([[token]])
        return drawn

    async def load(self, weights: dict[str, torch.Tensor], step: int | None) -> None:
        """Take the policy's weights."""
        found = self._model.load_state_dict(weights, strict=False)
        assert not found.unexpected_keys
        assert set(found.missing_keys) <= {"lm_head.weight"}  # where it is tied
        self._step = step

    async def wake_up(self, **_: object) -> None:
        """Do nothing: no memory was given back."""

    async def sleep(self, **_: object) -> None:
        """Do nothing: nobody waits for the memory."""


class Replica(replica.RolloutReplica):
    async def launch_servers(self) -> None:
        server = ray.remote(Server).options(name=_actor(self.replica_rank), num_cpus=0)
        self.servers = [
            server.remote(self.model_config.path, self.config.response_length)
        ]
        (self._server_handle,) = self.servers
        self._server_address = _actor(self.replica_rank)


class Sender(base.BaseRollout):
    """The trainer's side of a rollout: hands weights to the server of its rank."""

    async def resume(self, tags: list[str]) -> None:
        pass

    async def release(self) -> None:
        pass

    async def update_weights(
        self,
        weights: Iterator[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        **_: object,
    ) -> None:
        assert wire_format == "named_tensors"
        held = {name: weight.detach().clone() for name, weight in weights}
        server = ray.get_actor(_actor(torch.distributed.get_rank()))
        await server.load.remote(held, global_steps)


def _actor(rank: int) -> str:
    return f"verl_on_cpu_{rank}"


def register_engine() -> None:
    """Register verl's engine of FSDP for this platform; it writes down what it updates on."""
    from verl.workers.engine import EngineRegistry, fsdp

    names = ("responses", "response_mask", "advantages", "old_log_probs", "prompts")

    @EngineRegistry.register("language_model", ["fsdp", "fsdp2"], device="cpu")
    class Engine(fsdp.FSDPEngineWithLMHead):
        def train_batch(self, data: Any, loss_function: Any) -> Any:
            rows = {
                name: [row.tolist() for row in data[name].unbind()] for name in names
            }
            path = os.environ.get("VERL_ON_CPU_UPDATES")  # noqa: TID251
            if path:
                with Path(path).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows) + "\n")
            return super().train_batch(data, loss_function)


set_platform(CpuPlatform())
# It would name gloo twice for the one device, which torch refuses.
verl.utils.distributed.initialize_global_process_group_ray = functools.partial(
    verl.utils.distributed.initialize_global_process_group_ray, backend="cpu:gloo"
)
# verl would look for a value head in TRL 1.16, which is installed beside it here and has none.
verl.utils.import_utils.is_trl_available = functools.partial(_answer, answer=False)
base._ROLLOUT_REGISTRY[NAME, "async"] = f"{__name__}.{Sender.__name__}"
replica.RolloutReplicaRegistry.register(NAME, lambda: Replica)
if "RANK" in os.environ:  # noqa: TID251  # a worker, which alone makes engines
    register_engine()
