"""Micro-batches of whole groups: the largest that fits the free memory, halved if it runs out of memory.

TRL hands over all rows of an optimiser step at once (`gradient_accumulation_steps=1`). `MicroBatch` splits them
and adds up the gradients, so the gradient is the same whatever the size. At the start of a step no gradient is
accumulated yet, so a step that ran out of memory can be repeated from its start.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch

MARGIN = 0.15
"""This share of the free memory is left free."""
runs_on_device = 1
"""Runs that share the free memory; the workers of a comparison set it."""

T = TypeVar("T")
Batch = dict[str, Any]


def halved(rows: int, K: int) -> int:
    """Half of a micro-batch in whole groups, rounded up; one group stays one."""
    return (rows // K + 1) // 2 * K


def sizes(rows: int, K: int) -> list[int]:
    """One group, ..., a quarter, half and all of the rows."""
    descending = [rows]
    while descending[-1] > K:
        descending.append(halved(descending[-1], K))
    return descending[::-1]


def largest_fitting(candidates: Iterable[int], measure: Callable[[int], int], free: int) -> int:
    """The largest of ascending candidates that `measure` finds to need at most `free` bytes.

    The first where none does. A candidate that runs out of memory does not fit, nor does a larger one.
    """
    first, *others = candidates
    best = first
    for size in (first, *others):
        try:
            needed = measure(size)
        except torch.OutOfMemoryError:
            break
        if needed > free:
            break
        best = size
    return best


def split(inputs: Batch, rows: int) -> Iterator[Batch]:
    """The batch in parts of this many rows."""
    n = len(inputs["completion_ids"])
    for i in range(0, n, rows):
        yield {
            name: x[i : i + rows] if isinstance(x, torch.Tensor) and x.ndim and len(x) == n else x
            for name, x in inputs.items()
        }


class MicroBatch:
    """How many completions a forward and backward pass takes."""

    def __init__(self, trainer: Any, rows: int) -> None:
        """`rows` completions; 0: as many as fit, measured at the first step."""
        self.trainer, self.K, self.rows = trainer, trainer.num_generations, rows
        self.on_change: Callable[[int], None] = lambda rows: None
        """called with each size that is chosen"""
        self.parts = 1
        """micro-batches of the current step"""

    @property
    def rows_without_gradient(self) -> int:
        """The rows of a forward pass without gradient; one group until the size is measured."""
        return self.rows or self.K

    def backward(self, model: Any, inputs: Batch, loss_of: Callable[[Batch], Any]) -> Any:
        """The loss of a step, once the gradients of all its micro-batches are added up."""
        if not self.rows:
            self._choose(len(inputs["row"]), lambda rows: self._memory_needed(inputs, rows))
        trainer, metrics = self.trainer, self.trainer._metrics["train"]
        logged = {name: len(values) for name, values in metrics.items()}

        def attempt() -> Any:
            for parameter in trainer.model.parameters():
                parameter.grad = None
            for name, values in metrics.items():
                del values[logged.get(name, 0) :]
            trainer.skip_steps.reset()
            return self._accumulate(model, inputs, loss_of)

        return self.fitting(attempt)

    def fitting(self, attempt: Callable[[], T]) -> T:
        """What `attempt` returns, with smaller micro-batches until there is memory for it."""
        while True:
            try:
                return attempt()
            except torch.OutOfMemoryError as error:
                self._check_halving(error)
            self._halve()  # here, where the traceback no longer holds tensors

    def _accumulate(self, model: Any, inputs: Batch, loss_of: Callable[[Batch], Any]) -> Any:
        accelerator = self.trainer.accelerator
        parts = list(split(inputs, self.rows))
        self.parts = len(parts)
        total = torch.zeros((), device=accelerator.device)
        for part in parts[:-1]:
            with accelerator.no_sync(model):
                loss = loss_of(part)
                accelerator.backward(loss)
            total += loss.detach()
            del loss
        loss = loss_of(parts[-1])
        accelerator.backward(loss)
        return (
            total + loss.detach()
        ).requires_grad_()  # a leaf: Trainer's own backward adds nothing

    def _choose(self, most: int, measure: Callable[[int], int]) -> None:
        """Set the largest size that fits on every rank, at most `most` rows."""
        accelerator = self.trainer.accelerator
        fitting = largest_fitting(sizes(most, self.K), measure, free_memory(self.trainer))
        empty_cache(self.trainer)
        of_ranks = accelerator.gather(torch.tensor([fitting], device=accelerator.device))
        self._set(int(of_ranks.min()))

    def _memory_needed(self, inputs: Batch, rows: int) -> int:
        """Bytes at the peak of a forward and backward pass over rows of the largest length."""
        trainer = self.trainer
        return peak_memory(trainer, lambda: self._try(longest_batch(inputs, rows, trainer)))

    def _try(self, batch: Batch) -> None:
        """A forward and backward pass, whose gradient is dropped."""
        trainer = self.trainer
        plain = trainer.accelerator.unwrap_model(trainer.model)
        try:
            trainer.log_probs.of_batch(plain, batch, compute_entropy=True)[
                0
            ].float().sum().backward()
        finally:
            for parameter in plain.parameters():
                parameter.grad = None

    def _check_halving(self, error: torch.OutOfMemoryError) -> None:
        """Raise if a smaller micro-batch cannot help."""
        processes = self.trainer.accelerator.num_processes
        if processes > 1:  # the other ranks wait in a collective operation of the larger one
            advice = f"set micro_batch to {halved(self.rows, self.K)}"
        elif self.rows_without_gradient <= self.K:
            advice = "lower group_size or max_tokens, or set gradient_checkpointing"
        else:
            return
        raise torch.OutOfMemoryError(
            f"out of memory with a micro-batch of {self.rows_without_gradient} completions on {processes} "
            f"processes: {advice} ({error})"
        ) from error

    def _halve(self) -> None:
        empty_cache(self.trainer)
        rows, self.rows = self.rows, halved(self.rows, self.K)
        warnings.warn(
            f"out of memory at step {self.trainer.state.global_step} with a micro-batch of {rows} completions: "
            f"this step is repeated, and the run continues, with {self.rows}. The gradient is the same",
            stacklevel=2,
        )
        self._set(self.rows)

    def _set(self, rows: int) -> None:
        self.rows = rows
        self.on_change(rows)


def longest_batch(inputs: Batch, rows: int, trainer: Any) -> Batch:
    """The first rows of a batch, with completions of the largest length that is possible."""
    ids = inputs["completion_ids"][:rows]
    width = max(ids.shape[1], trainer.max_completion_length or 0)
    full = ids[:, :1].expand(-1, width).contiguous()
    prompts = {name: inputs[name][:rows] for name in ("prompt_ids", "prompt_mask")}
    return {**prompts, "completion_ids": full, "completion_mask": torch.ones_like(full)}


def free_memory(trainer: Any) -> int:
    """Bytes that a micro-batch may take: those free, less a margin and an optimiser state not made yet."""
    empty_cache(trainer)
    free, _ = torch.cuda.mem_get_info(trainer.accelerator.device)
    trained = [p for p in trainer.model.parameters() if p.requires_grad]
    state = 0 if trainer.optimizer.state else 2 * sum(p.numel() * p.element_size() for p in trained)
    return int((1 - MARGIN) * free / runs_on_device) - state


def peak_memory(trainer: Any, work: Callable[[], None]) -> int:
    """Bytes that the work takes at its peak."""
    device = trainer.accelerator.device
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    work()
    return torch.cuda.max_memory_allocated(device) - before


def empty_cache(trainer: Any) -> None:
    """Return cached memory to the device, and reset the peak."""
    if trainer.accelerator.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(trainer.accelerator.device)
