"""A CPU as one of verl's platforms, by its own interface for new chips, so that its engines run without a GPU."""

import contextlib
from types import SimpleNamespace

import torch
import verl.utils.model
from transformers import AutoModelForTokenClassification
from verl.plugin.platform import PlatformBase, set_platform


class PlatformCPU(PlatformBase):
    device_name = "cpu"
    vendor_name = "cpu"
    device_module = SimpleNamespace(
        max_memory_allocated=lambda: 0,
        max_memory_reserved=lambda: 0,
        memory_allocated=lambda: 0,
        memory_reserved=lambda: 0,
        mem_get_info=lambda: (0, 0),
        empty_cache=lambda: None,
        synchronize=lambda: None,
        is_available=lambda: False,
        current_device=lambda: "cpu",
        get_device_name=lambda: "cpu",
        set_device=lambda _: None,
    )

    def is_available(self):
        return True

    def current_device(self):
        return "cpu"

    def device_count(self):
        return 1

    def set_device(self, device_index):
        pass

    def synchronize(self, device_index=None):
        pass

    def manual_seed(self, seed):
        torch.manual_seed(seed)

    def manual_seed_all(self, seed):
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings):
        pass

    def empty_cache(self):
        pass

    def get_device_capability(self, device_index=0):
        return None, None

    def communication_backend_name(self):
        return "gloo"

    def visible_devices_envvar(self):
        return "CUDA_VISIBLE_DEVICES"

    def nvtx_range(self, msg):
        return contextlib.nullcontext()

    def profiler_start(self):
        pass

    def profiler_stop(self):
        pass

    def ray_resource_name(self):
        return "CPU"

    def ray_noset_envvars(self):
        return []

    def is_ipc_supported(self):
        return False

    def cudart(self):
        return None


def use() -> None:
    """Take the CPU, with verl's own FSDP engines on it."""
    set_platform(PlatformCPU())
    from verl.workers.engine.base import EngineRegistry
    from verl.workers.engine.fsdp import transformer_impl as fsdp

    for kind, engine in (
        ("language_model", fsdp.FSDPEngineWithLMHead),
        ("value_model", fsdp.FSDPEngineWithValueHead),
    ):
        register = EngineRegistry.register(
            model_type=kind, backend=["fsdp", "fsdp2"], device="cpu", vendor="cpu"
        )
        register(engine)
    verl.utils.model.load_valuehead_model = _value_model


def _value_model(local_path, torch_dtype, model_config, trust_remote_code):
    """As verl's, which asks for flash attention: that needs a GPU."""
    return AutoModelForTokenClassification.from_pretrained(
        local_path, dtype=torch_dtype, config=model_config, attn_implementation="eager"
    )
