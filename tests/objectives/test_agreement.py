"""NumPy, JAX (plain, jit, vmap) and torch (eager, vmap, compiled) give the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import tpo
from support.libraries import LIBRARIES, asarray, double, example, group_of, run

NAMES = tpo.list_objectives()
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", NAMES)
def test_libraries_agree(name: str, dtype: str) -> None:
    fields, new = example(20, dtype=dtype, masks=True)
    objective = tpo.objective(name)
    # float32 is compared with the float64 truth: agreeing on a wrong number is not enough
    exact = {k: x if x.dtype == bool else x.astype("float64") for k, x in fields.items()}
    truth, truth_c, _ = run("numpy", objective, exact, new.astype("float64"))
    for library in LIBRARIES:
        loss, c, gradient = run(library, objective, fields, new)
        assert loss.dtype == c.dtype == dtype
        bound = TOLERANCE[dtype]
        np.testing.assert_allclose(loss, truth, atol=bound, rtol=bound, err_msg=library)
        np.testing.assert_allclose(c, truth_c, atol=bound, rtol=bound, err_msg=library)
        if gradient is not None:
            np.testing.assert_allclose(gradient, truth_c, atol=bound, rtol=bound, err_msg=library)


@pytest.mark.parametrize("name", NAMES)
def test_jax_vmap(name: str) -> None:
    """Three batches at once, as seeds are run, equal three batches one by one."""
    objective = tpo.objective(name)
    with double("jax"):
        batches = [example(seed, B=2, K=3, T=2) for seed in range(3)]
        groups = [group_of("jax", fields) for fields, _ in batches]
        stacked = jax.tree.map(lambda *xs: jnp.stack(xs), *groups)
        news = jnp.stack([asarray("jax", new) for _, new in batches])
        together = jax.jit(jax.vmap(lambda g, x: objective.coefficients(x, objective.prepare(g))))
        got = together(stacked, news)
        for i, (fields, new) in enumerate(batches):
            _, c, _ = run("numpy", objective, fields, new)
            np.testing.assert_allclose(got[i], c, atol=1e-12)


@pytest.mark.parametrize("name", ["tpo", "lpo", "grpo", "ppo", "dg"])
def test_torch_vmap(name: str) -> None:
    objective = tpo.objective(name)
    batches = [example(seed, B=2, K=3, T=2) for seed in range(3)]
    old, scores, new = (
        torch.stack([torch.from_numpy(x) for x in xs])
        for xs in zip(*((f["log_probs_old"], f["scores"], new) for f, new in batches), strict=True)
    )

    def one(old: torch.Tensor, scores: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        group = tpo.Groups(log_probs_old=old, scores=scores)
        return objective.coefficients(x, objective.prepare(group))

    got = torch.vmap(one)(old, scores, new)
    for i in range(3):
        np.testing.assert_allclose(got[i], one(old[i], scores[i], new[i]), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_torch_compile_traces_the_whole_update(name: str) -> None:
    """One graph, no breaks, the same loss and gradient; the backend is the reference one."""
    _compare_compiled(name, "aot_eager")


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")  # torch's own imports
@pytest.mark.parametrize("name", ["tpo", "grpo", "lpo"])
def test_torch_compile_to_machine_code(name: str) -> None:
    _compare_compiled(name, "inductor")


def _compare_compiled(name: str, backend: str) -> None:
    objective = tpo.objective(name)
    fields, new = example(21, masks=True)
    tensors = {key: torch.from_numpy(x) for key, x in fields.items()}

    def update(x: torch.Tensor, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        return objective.loss(x, objective.prepare(tpo.Groups(**tensors)))

    torch._dynamo.reset()
    compiled = torch.compile(update, backend=backend, fullgraph=True)
    results = []
    for function in (update, compiled):
        x = torch.from_numpy(new).requires_grad_()
        loss = function(x, tensors)
        (gradient,) = torch.autograd.grad(loss, x)
        results.append((loss.detach().numpy(), gradient.numpy()))
    for eager, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, eager, atol=1e-12)


def test_a_group_passes_through_jit_and_grad_as_a_pytree() -> None:
    fields, new = example(22)
    objective = tpo.objective("grpo", granularity="sequence")
    with double("jax"):
        group, x = group_of("jax", fields), asarray("jax", new)
        prepared = jax.jit(objective.prepare)(group)
        step = jax.jit(jax.value_and_grad(type(objective).loss, argnums=1), static_argnums=0)
        loss, gradient = step(objective, x, prepared)
        expected, c, _ = run("numpy", objective, fields, new)
        np.testing.assert_allclose(loss, expected, atol=1e-12)
        np.testing.assert_allclose(gradient, c, atol=1e-12)
