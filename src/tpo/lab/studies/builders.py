"""Builders: from plain settings and a method's name to what is run, a cell or an exact computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from tpo.lab.own_tasks import own_task
from tpo.lab.policies import MLP, CodePolicy, Table, Transformer
from tpo.lab.rollouts import Rollout
from tpo.lab.rollouts.faults import Faults
from tpo.lab.studies.computations import WEIGHTS, Mechanism, Talk
from tpo.lab.studies.method_specs import (
    bandit_method,
    bandit_row,
    optimiser_name,
    sequence_method,
    sequence_row,
)
from tpo.lab.studies.own_runs import OwnRun
from tpo.lab.tasks import Bandit, Codes, Digits, Sequences, Task
from tpo.lab.training import Budget, Cell, Measures, Method, Optimiser, Staleness
from tpo.objectives.method_syntax import parse
from tpo.user_code import is_spec, split_options

AnyCell = Cell | Mechanism | Talk
Builder = Callable[[Mapping[str, Any], str], AnyCell]


def sequence_cell(settings: Mapping[str, Any], method: str) -> Cell:
    """Token sequences with a transformer: H, V, K, B, target, reward, matching, epochs, eta.

    `task` sets reward and target together, such as "bag copy"; `step` optimiser, learning rate and clipping or
    epochs, such as "adam 3e-4 clipped" or "muon 1e-3 16 epochs".
    """
    s = dict(settings)
    optimiser, max_grad_norm = optimiser_name(method), 0.0
    if "step" in s:
        optimiser, rate, *more = s["step"].split()
        s["learning_rate"], max_grad_norm = float(rate), float(more == ["clipped"])
        if more[1:] == ["epochs"]:
            s["epochs"] = int(more[0])
    if "task" in s:
        s["reward"], s["target"] = s["task"].split()
    task = Sequences(s["H"], s["V"], s["target"], s["reward"])
    options = {"eta": s["eta"]} if "eta" in s else {}
    cell = Cell(
        task,
        sequence_method(method, s["K"], s.get("epochs"), **options),
        Budget(s["B"], s["episodes"], s["seeds"]),
        Optimiser(optimiser, s["learning_rate"], max_grad_norm),
        policy=Transformer(s["V"], s["H"], s["H"], s["width"], s["layers"], s["heads"]),
        critic=sequence_row(method).critic,
    )
    return cell.interaction_matched(s["K"]) if s.get("matching") == "interaction" else cell


def image_cell(settings: Mapping[str, Any], method: str) -> Cell:
    """Digits as a bandit with an MLP: data, hidden, B, test_every.

    D is the delay of the actor; `protocol` is whose baseline ("learner", "actor", "crossed"), or "uniform"
    for a lag drawn from 0..D with the learner's.
    """
    s = settings
    task = Digits(s["data"])
    name, options = parse(method)
    delay, protocol = s.get("D", 0), s.get("protocol", "learner")
    of_learner = name == "tpo" or "correct" in options
    uniform = protocol == "uniform"
    return Cell(
        task,
        bandit_method(method),
        Budget(s["B"], s["episodes"], s["seeds"]),
        Optimiser("adam", s["learning_rate"]),
        policy=MLP(task.observes[1], task.actions, tuple(s["hidden"])),
        staleness=Staleness(
            delay,
            uniform=bool(delay) and uniform,
            anchor="learner" if delay and of_learner else "actor",
            baseline="learner" if uniform else protocol,
        ),
        measures=Measures(evaluate_every=s["test_every"]),
        critic=bandit_row(method).critic,
    )


def one_context_cell(settings: Mapping[str, Any], method: str) -> Cell:
    """One context with A arms, B sampled actions, a step of fixed length in logit space."""
    s = settings
    found = bandit_method(method, baseline=s["baseline"])
    if found.rollout.kind == "vector":
        found = replace(found, rollout=replace(found.rollout, kind="pooled"))
    return Cell(
        Bandit(s["A"]),
        found,
        Budget(s["B"], s["episodes"], s["seeds"]),
        Optimiser("normalized", s["step"]),
        measures=Measures(against="pg"),
        critic=bandit_row(method).critic,
    )


def many_contexts_cell(settings: Mapping[str, Any], method: str) -> Cell:
    """C contexts with A arms and exact population updates, one step of fixed length for all."""
    s = settings
    name, _ = parse(method)
    learner = Method("population", (("method", name),), Rollout("oracle"), 1)
    return Cell(
        Bandit(s["A"], s["contexts"]),
        learner,
        Budget(s["contexts"], s["episodes"], s["seeds"]),
        Optimiser("normalized", s["step"]),
        policy=Table(s["contexts"], s["A"], spread=1.0),
        measures=Measures(against="ce"),
    )


CODE_FRICTION = ("bugs", "random", "corrupted", "rare")


def codes_cell(settings: Mapping[str, Any], method: str) -> Cell:
    """Codes of bits in one action: groups of K, or K times the prompts for methods of single samples.

    `friction` is "none", "together RATE" or "KIND RATE" with a kind of CODE_FRICTION. `target` is an option
    of the objective's target as "eta=2" or "kl_budget=0.1".
    """
    s = dict(settings)
    kind, _, rate = s.get("friction", "none").partition(" ")
    wrong = {name: float(rate) for name in CODE_FRICTION if kind in (name, "together")}
    options = {"sigma_floor": s["sigma_floor"]} if "sigma_floor" in s else {}
    if "target" in s:
        name, _, value = s["target"].partition("=")
        options[name] = float(value)
    found = sequence_method(method, s["K"], s.get("epochs"), **options)
    found = replace(found, rollout=replace(found.rollout, failed=s.get("failed", "learn")))
    task = Codes(
        s["bits"],
        s.get("extra", "helpful"),
        s.get("size", 0.0),
        s.get("rewarded", "failures"),
        wrong.get("corrupted", 0.0),
    )
    prompts = s["B"] * (s["K"] if found.rollout.kind == "single" else 1)
    return Cell(
        task,
        found,
        Budget(prompts, s["episodes"], s["seeds"]),
        Optimiser("adam", s["learning_rate"]),
        policy=CodePolicy(s["bits"], wrong.get("rare", 0.0)),
        faults=Faults(wrong.get("bugs", 0.0), wrong.get("random", 0.0), s.get("temperature", 1.0)),
        critic=sequence_row(method).critic,
    )


def mechanism_job(settings: Mapping[str, Any], method: str) -> Mechanism:
    """The surplus gain of a method's expected update on a network that the method has trained."""
    s = settings
    if method not in WEIGHTS:
        raise ValueError(
            f"method {method!r} has no closed form of its expected update, expected one of "
            f"{', '.join(WEIGHTS)}"
        )
    return Mechanism(method, s["data"], tuple(s["hidden"]), s["B"], s["episodes"], s["seeds"])


def talk_job(settings: Mapping[str, Any], method: str) -> Talk:
    """The talk's numbers: exact, no seeds."""
    if method != "tpo":
        raise ValueError(
            f"--methods is {method!r}, and the talk's numbers come for all methods at once"
        )
    return Talk()


def own_cell(settings: Mapping[str, Any], method: str) -> Cell:
    """A run of one's own: the options of `OwnRun`."""
    of_run = {f.name: settings[f.name] for f in fields(OwnRun) if f.name in settings}
    run = OwnRun(**of_run)
    task = task_of(run)
    objective, options = parse(method)
    optimiser = options.get("optimiser") or run.optimiser or ("muon" if task.length > 1 else "adam")
    found = sequence_method(method, run.group_size) if task.length > 1 else bandit_method(method)
    epochs = options.get("epochs") or run.epochs or found.epochs
    rollout = replace(found.rollout, group_size=run.group_size)
    of_learner = objective == "tpo" or "correct" in options
    cell = Cell(
        task,
        replace(found, rollout=rollout, epochs=epochs),
        Budget(run.batch, run.episodes, settings["seeds"]),
        Optimiser(optimiser, run.learning_rate),
        staleness=Staleness(run.delay, anchor="learner" if of_learner else "actor"),
        measures=Measures(run.evaluate_every),
        critic=(sequence_row if task.length > 1 else bandit_row)(method).critic,
    )
    return cell.interaction_matched(run.group_size) if run.match == "interactions" else cell


def task_of(run: OwnRun) -> Task:
    """The task of a run of one's own."""
    if is_spec(split_options(run.task)[0]):
        return own_task(run.task)
    if run.task == "sequences":
        return Sequences(run.horizon, run.vocab, run.target, run.reward)
    return Bandit(run.arms) if run.task == "bandit" else Digits(run.task, run.mnist_path)


BUILDERS: dict[str, Builder] = {
    "sequences": sequence_cell,
    "images": image_cell,
    "one_context": one_context_cell,
    "many_contexts": many_contexts_cell,
    "codes": codes_cell,
    "mechanism": mechanism_job,
    "talk": talk_job,
    "own": own_cell,
}
