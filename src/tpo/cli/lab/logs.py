"""`--log tensorboard` and `--log wandb[:PROJECT]`: the curves of a run, mean over seeds, as they grow."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

INSTALL = {
    "tensorboard": "--log tensorboard needs tensorboardX: pip install tensorboardX tensorboard",
    "wandb": "--log wandb needs wandb: pip install wandb, then wandb login",
}
SERVICES = tuple(INSTALL)
PACKAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "tensorboard": (("tensorboardX",), ("torch", "tensorboard")),
    "wandb": (("wandb",),),
}
"""The modules that a service needs, as alternatives."""


class Writer(Protocol):
    """Where one method's numbers go."""

    def write(self, episode: int, numbers: Mapping[str, float]) -> None:
        """The numbers of one episode."""
        ...

    def close(self) -> None:
        """No more numbers."""
        ...


class Log:
    """Curves on their way to writers, one per method; this one has none."""

    def add(self, method: str, curves: Mapping[str, np.ndarray]) -> None:
        """The method's curves so far, [seeds, episodes] each."""

    def close(self) -> None:
        """Close every writer."""


@dataclass
class WriterLog(Log):
    """Every episode of every method once; `open_writer` makes a method's writer."""

    open_writer: Any
    writers: dict[str, Writer] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)

    def add(self, method: str, curves: Mapping[str, np.ndarray]) -> None:
        """Write the episodes that are new: means over seeds, without NaN."""
        if not curves:
            return
        if method not in self.writers:
            self.writers[method] = self.open_writer(method)
        episodes = next(iter(curves.values())).shape[1]
        means = {name: np.asarray(y, float).mean(0) for name, y in curves.items() if y.ndim == 2}
        for i in range(self.written.get(method, 0), episodes):
            numbers = {name: float(y[i]) for name, y in means.items() if np.isfinite(y[i])}
            self.writers[method].write(i + 1, numbers)
        self.written[method] = episodes

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


class TensorBoard:
    """Event files in FOLDER/METHOD."""

    def __init__(self, module: Any, folder: Path) -> None:
        """module: one with a `SummaryWriter`."""
        self.writer = module.SummaryWriter(str(folder))

    def write(self, episode: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, episode)

    def close(self) -> None:
        self.writer.close()


class WandB:
    """A run of a Weights & Biases project."""

    def __init__(self, module: Any, project: str, name: str, config: Mapping[str, Any]) -> None:
        """A new run of that name."""
        self.run = module.init(project=project, name=name, config=dict(config), reinit="create_new")

    def write(self, episode: int, numbers: Mapping[str, float]) -> None:
        self.run.log(dict(numbers), step=episode)

    def close(self) -> None:
        self.run.finish()


def check_service(service: str | None) -> None:
    """Raise, before anything is imported, if no package of the service is installed."""
    name = (service or "").partition(":")[0]
    choices = PACKAGES.get(name, ())
    if choices and not any(all(map(_is_installed, modules)) for modules in choices):
        raise ModuleNotFoundError(INSTALL[name], name=choices[0][0])


def _is_installed(module: str) -> bool:
    return sys.modules[module] is not None if module in sys.modules else bool(find_spec(module))


def opened(service: str | None, folder: Path, config: Mapping[str, Any]) -> Log:
    """The log of --log; an unknown service or a missing package is an error before anything runs."""
    if not service:
        return Log()
    name, _, project = service.partition(":")
    if name not in SERVICES or (project and name != "wandb"):
        raise ValueError(f"--log is {service!r}, expected tensorboard, wandb or wandb:PROJECT")
    if name == "wandb":
        module = _wandb()
        return WriterLog(lambda method: WandB(module, project or "tpo", method, config))
    module = _tensorboard()
    return WriterLog(lambda method: TensorBoard(module, folder / folder_name(method)))


def folder_name(method: str) -> str:
    """The method as the name of a folder."""
    kept = (c if c.isalnum() or c in "._=" else "-" for c in method)
    return "".join(kept).strip("-")


def _wandb() -> Any:
    try:
        import wandb
    except ModuleNotFoundError:
        raise ModuleNotFoundError(INSTALL["wandb"], name="wandb") from None
    return wandb


def _tensorboard() -> Any:
    """tensorboardX, which is small, else what torch has."""
    try:
        import tensorboardX
    except ModuleNotFoundError:
        pass
    else:
        return tensorboardX
    try:
        from torch.utils import tensorboard
    except ModuleNotFoundError:
        raise ModuleNotFoundError(INSTALL["tensorboard"], name="tensorboardX") from None
    return tensorboard
