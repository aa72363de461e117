"""The trainer's `beta` is the strength of a KL that an objective has of its own, and of nothing else."""

import textwrap

import pytest

from tpo.llm.objective_options import build_objective

OWN = """
    from dataclasses import dataclass
    import tpo
    from tpo.objectives.base import positive
    from tpo.objectives.parts import KL, Composed, Parts, WithKL
    from tpo.objectives.advantages import centred

    @dataclass(frozen=True)
    class Tempered(Composed):
        traits = tpo.Traits("policy gradient")
        beta: float = positive(2.0)
        def parts(self):
            return Parts(advantage=lambda groups: centred(groups) / self.beta)

    @dataclass(frozen=True)
    class Penalised(WithKL):
        traits = tpo.Traits("policy gradient", kl=True)
        def parts(self):
            return Parts(advantage=centred, kl=KL(self.beta, self.kl_correction))
"""


def test_a_beta_that_is_no_kl_is_the_objectives_own(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(textwrap.dedent(OWN))
    mine = f"{file}:Tempered"
    assert build_objective(mine, {}, 0.1, "set beta").beta == 2.0
    assert build_objective(mine, {"beta": 3.0}, 0.1, "set beta").beta == 3.0
    assert build_objective(f"{file}:Penalised", {}, 0.1, "set beta").beta == 0.1
    for name in (f"{file}:Penalised", "tpo", "grpo"):
        with pytest.raises(ValueError, match="an option of the config: set beta"):
            build_objective(name, {"beta": 0.2}, 0.1, "set beta")
