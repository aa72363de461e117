"""The plug-in through verl's own entry points, each time in a fresh process."""

import os
import subprocess
import sys

from configs import SMALL

REGISTRIES = (
    "from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY as trainers;"
    "from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY as losses;"
    "print('found', [n for n in trainers if n.startswith('tpo')], 'tpo' in losses)"
)


def python(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONWARNINGS": "ignore", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_import_verl_registers_loss_and_trainers():
    run = python("-c", f"import verl; {REGISTRIES}")
    assert "found ['tpo', 'tpo_colocate_async'] True" in run.stdout, run.stderr


def test_a_failure_that_verl_swallows_is_seen():
    broken = "import sys; sys.modules['torchdata'] = None; import verl; print('verl is there')"
    run = python("-c", broken)
    assert "verl is there" in run.stdout
    assert "tpo's plug-in for verl could not be loaded" in run.stderr
    assert "torchdata" in run.stderr


def main_ppo(tmp_path, *overrides, **environment):
    options = (*SMALL, f"hydra.run.dir={tmp_path}", *overrides)
    return python("-m", "verl.trainer.main_ppo", *options, **environment)


def test_verls_command_line_ends_on_a_wrong_option_before_ray_starts(tmp_path):
    run = main_ppo(tmp_path, "+trainer.v1.tpo.objective=gpro")
    assert run.returncode != 0
    assert "unknown objective 'gpro'" in run.stderr
    assert "Valid names: tpo" in run.stderr
    assert "ray init" not in run.stdout


def test_import_tpo_imports_neither_torch_nor_verl():
    run = python("-c", "import sys, tpo; print([m for m in ('torch', 'verl') if m in sys.modules])")
    assert run.stdout.strip() == "[]", run.stderr
