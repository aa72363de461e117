"""The base class `Objective` with `prepare`, `loss` and `coefficients`; option types; the registry of names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

from tpo import checks, user_code
from tpo.arrays import Array, Namespace, namespace
from tpo.groups import Groups
from tpo.options import (
    ABOVE_ONE,
    BOOL,
    FRACTION,
    INSIDE_UNIT,
    NONNEGATIVE,
    NUMBERS,
    POSITIVE,
    Kind,
    check,
    kinds,
    one_of,
    option,
)


def positive(default: float) -> float:
    """An option that is a finite number above 0."""
    return cast(float, option(default, POSITIVE))


def nonnegative(default: float) -> float:
    """An option that is a finite number, 0 or above."""
    return cast(float, option(default, NONNEGATIVE))


def fraction(default: float) -> float:
    """An option between 0 and 1."""
    return cast(float, option(default, FRACTION))


def inside_unit(default: float) -> float:
    """An option strictly between 0 and 1."""
    return cast(float, option(default, INSIDE_UNIT))


def above_one(default: float) -> float:
    """An option that is a finite number above 1, or 0 for none."""
    return cast(float, option(default, ABOVE_ONE))


def choice(default: str, *names: str, formerly: Mapping[str, str] | None = None) -> str:
    """An option that is one of a few names; `formerly` maps former names, still accepted, to current ones."""
    return cast(str, option(default, one_of(*names), formerly=formerly or {}))


def flag(default: bool) -> bool:
    """An option that is True or False."""
    return cast(bool, option(default, BOOL))


def numbers(default: tuple[float, ...]) -> tuple[float, ...]:
    """An option that is a tuple of numbers."""
    return cast("tuple[float, ...]", option(default, NUMBERS))


class Traits(NamedTuple):
    """What an objective needs from its user, by default or by an option; the documentation has a table."""

    family: str
    group: bool = True
    """Compares the scores of one context's candidates, so K must be at least 2."""
    critic: bool = False
    """Needs `values`."""
    reference: bool = False
    """Uses `log_probs_ref`, other than by the option `beta` if that is 0 by default."""
    epochs: bool = True
    """Meant for several epochs per batch (TRL's `num_iterations`)."""
    tokens: bool = False
    """Needs every token's log-prob: tokens of a candidate have coefficients of their own."""
    whole_groups: bool = False
    """After an update a candidate's coefficients depend on the log-probs of others in its group."""
    whole_batch: bool = False
    """A candidate's coefficients depend on the current log-probs of other groups of the batch too."""
    behaviour: bool = False
    """Uses `log_probs_rollout` where the groups have it."""
    kl: bool = False
    """Has a KL to the reference of its own, weighted by its option `beta`."""


@dataclass(frozen=True)
class Objective:
    """A rule from (log-probs, rollout log-probs, scores) to a loss; a frozen, hashable value.

    A new objective is a subclass with `_prepare` and `_loss`. Without `_coefficients` the gradient comes from
    automatic differentiation, which NumPy does not have.
    """

    traits: ClassVar[Traits]
    needs: ClassVar[tuple[str, ...]] = ()
    critic_returns: ClassVar[str] = "lambda"
    """What a critic is fitted to: λ-returns with the objective's γ and λ, or `monte_carlo` returns."""
    prepared_type: ClassVar[type] = object
    """What `_prepare` returns; `loss` and `coefficients` accept nothing else."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            renamed = f.metadata.get("formerly", {})
            if isinstance(value, str) and value in renamed:
                object.__setattr__(self, f.name, renamed[value])
        check(self, f"{type(self).__name__}: option ")

    @property
    def uses_values(self) -> bool:
        """Whether it needs a critic's `values`, always or with these options."""
        return "values" in self.needs or getattr(self, "advantage", None) == "gae"

    @property
    def uses_progress(self) -> bool:
        """Whether these options are annealed, so that groups need `progress`."""
        return bool(getattr(self, "eta_final", 0.0))

    def prepare(self, groups: Groups) -> Any:
        """Everything that is fixed over the epochs of one rollout batch; a NamedTuple, so a JAX pytree."""
        if not isinstance(groups, Groups):
            raise TypeError(f"groups is a {type(groups).__name__}, expected tpo.Groups")
        for name in self.needs:
            if getattr(groups, name) is None:
                raise ValueError(
                    f"{type(self).__name__} needs {name}: pass {name}=... to tpo.Groups"
                )
        return self._prepare(groups)

    def loss(self, log_probs: Array, prepared: Any) -> Array:
        """The scalar to minimise. log_probs: [B, K, T] under the policy being trained."""
        return self._loss(self._checked(log_probs, prepared), log_probs, prepared)

    def coefficients(self, log_probs: Array, prepared: Any) -> Array:
        """The exact d loss / d log_probs, [B, K, T], for engines that split groups over micro-batches."""
        return self._coefficients(self._checked(log_probs, prepared), log_probs, prepared)

    def _checked(self, log_probs: Array, prepared: Any) -> Namespace:
        """The namespace of log-probs that match the rollout's; the slower check runs only on a mismatch."""
        old, given = getattr(prepared, "log_probs_old", None), type(prepared).__name__
        if old is None or isinstance(prepared, Groups):
            raise TypeError(
                f"prepared is a {given}, expected what prepare(groups) returned: call it first"
            )
        if not isinstance(prepared, self.prepared_type):
            raise TypeError(
                f"prepared is a {given}, expected a {self.prepared_type.__name__}: "
                f"{type(self).__name__} takes what its own prepare(groups) returned"
            )
        xp = namespace(old) if type(log_probs) is type(old) else None
        if xp is not None and log_probs.dtype == old.dtype and log_probs.shape == old.shape:
            return xp
        return checks.alike(log_probs_old=old, log_probs=log_probs)

    def _prepare(self, groups: Groups) -> Any:
        """In subclasses: what `prepare` returns, a NamedTuple with a field `log_probs_old`."""
        raise NotImplementedError

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        """In subclasses: the loss."""
        raise NotImplementedError

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        """In subclasses, optional: the gradient in closed form. By default it is derived from `_loss`."""
        return xp.gradient(lambda x: self._loss(xp, x, prepared), log_probs)


_Class = TypeVar("_Class", bound=type[Objective])


class Entry(NamedTuple):
    """A registered name: the class, the options of this variant, a summary, whether it is listed, its label."""

    make: type[Objective]
    options: Mapping[str, Any]
    summary: str
    listed: bool = True
    label: str = ""


_REGISTRY: dict[str, Entry] = {}


def register(
    name: str,
    make: _Class,
    summary: str = "",
    *,
    listed: bool = True,
    label: str = "",
    **options: Any,
) -> _Class:
    """Make `tpo.objective(name)` return `make(**options)`; a variant is one such line.

    listed: whether `tpo.list_objectives()` includes it; False for objectives of a single study or test.
    label: how tables, figures and pages call it; by default by its name.
    """
    if not (isinstance(make, type) and issubclass(make, Objective)):
        raise TypeError(f"make is {make!r}, expected a subclass of tpo.Objective")
    if name in _REGISTRY and _REGISTRY[name].make is not make:
        raise ValueError(f"objective {name!r} exists already: choose another name")
    _REGISTRY[name] = Entry(
        make, options, summary or (make.__doc__ or "").partition("\n")[0], listed, label
    )
    return make


OWN = user_code.Expected(
    "an objective",
    {
        "traits": "what it needs, such as traits: ClassVar[tpo.Traits] = tpo.Traits('target')",
        "_prepare(self, groups)": "what is fixed over the epochs, a NamedTuple with log_probs_old",
        "_loss(self, xp, log_probs, prepared)": "the scalar to minimise",
    },
    base="Objective",
    see="examples/own_objective.py and tpo.Objective",
)
"""What a class must define to be named `FILE.py:CLASS`."""


def _own_entry(spec: str) -> Entry:
    """The entry of a class in a user's file."""
    make = user_code.load(spec, OWN)
    if not issubclass(make, Objective):
        raise TypeError(
            f"class {make.__name__} in {spec.rpartition(':')[0]} does not derive from tpo.Objective: "
            f"write class {make.__name__}(tpo.Objective)"
        )
    return Entry(make, {}, (make.__doc__ or "").partition("\n")[0], listed=False)


def entry(name: str) -> Entry:
    """The class and options behind a name or `FILE.py:CLASS`; an unknown name lists the valid ones."""
    if isinstance(name, str) and user_code.is_spec(name):
        return _own_entry(name)
    if not isinstance(name, str) or name not in _REGISTRY:
        valid = list_objectives()
        hint = checks.close_match(name, valid)
        raise ValueError(f"unknown objective {name!r}.{hint} Valid names: {', '.join(valid)}")
    return _REGISTRY[name]


def check_group_size(name: str, option: str, size: int, instead: str = "") -> None:
    """Raise if an objective compares candidates and there is one; `option` is what the user sets."""
    if size < 2 and entry(name).make.traits.group:
        raise ValueError(
            f"{option} is {size}, and objective {name!r} compares the candidates of one context, so a group "
            f"needs at least 2: set {option} to 2 or more{instead}"
        )


class Wrapper(NamedTuple):
    """An option that every objective has: what it accepts, and the objective that it makes of another."""

    kind: Kind
    wrap: Callable[[Objective, Any], Objective]


WRAPPERS: dict[str, Wrapper] = {}
"""By name; `corrections` adds `correct`."""


def objective(name: str, **options: Any) -> Objective:
    """The objective of that name, or of a class `FILE.py:CLASS`, with its defaults, changed by `options`."""
    found = entry(name)
    of_kind = kinds(found.make)
    accepted = {f.name: of_kind[f.name].accepts if f.name in of_kind else "any value"
                for f in fields(found.make)}  # fmt: skip
    accepted |= {key: wrapper.kind.accepts for key, wrapper in WRAPPERS.items()}
    for given in options:
        if given not in accepted:
            listing = "; ".join(f"{key}: {what}" for key, what in accepted.items()) or "none"
            hint = checks.close_match(given, accepted)
            raise TypeError(f"{name} has no option {given!r}.{hint} Its options: {listing}")
    own = {key: value for key, value in options.items() if key not in WRAPPERS}
    made = found.make(**{**found.options, **own})
    for key, value in options.items():
        if key in WRAPPERS:
            WRAPPERS[key].kind.check(f"{type(made).__name__}: option {key}", value)
            made = WRAPPERS[key].wrap(made, value)
    return made


def label(name: str) -> str:
    """`dr_grpo` -> `Dr. GRPO`; a name without a label stays as it is; `FILE.py:CLASS` -> `CLASS`."""
    found = _REGISTRY.get(name)
    return found.label if found and found.label else user_code.class_name(name)


def list_objectives() -> list[str]:
    """The names that `tpo.objective` accepts, but for those registered as unlisted."""
    return [name for name, found in _REGISTRY.items() if found.listed]
