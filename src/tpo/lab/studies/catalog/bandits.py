"""Studies of one action per context: tables of logits, MNIST, staleness; and the talk's exact numbers."""

from __future__ import annotations

from dataclasses import replace

from tpo.declarations.study import Measure, Scale, Study
from tpo.stats.verdicts import Claim

IMAGES = {"data": "mnist", "hidden": (50, 50), "B": 100, "learning_rate": 1e-3, "test_every": 200}
EMBEDDED = {"data": "digits", "hidden": (8,), "test_every": 5}
TEST = Measure("test_error", "test error", log=True)

TABULAR_SINGLE = Study(
    name="tabular_single",
    title="One context, a hundred arms",
    question="With a single prompt, does TPO learn faster than policy gradients?",
    source="Fig. 3",
    about="One of 100 arms pays. Each step samples B actions from a table of logits that starts at 0 and "
    "moves it by a vector of norm 0.1. PG, DG and TPO take reward - 0.5 as the advantage, GRPO standardises "
    "over the batch, TPO averages the advantages into one score per arm. Misalignment is 1 - cos to the "
    "exact policy gradient. The error is that before the step.",
    build="one_context",
    methods=("pg", "dg", "grpo", "tpo"),
    settings={"A": 100, "B": 100, "step": 0.1, "baseline": 0.5},
    scales={
        "smoke": Scale(2, 5, {"A": 10, "B": 10}),
        "quick": Scale(20, 150),
        "full": Scale(100, 150),
    },
    measures=(
        Measure("expected_error", "error", log=True),
        Measure("misalignment", "misalignment to the policy gradient", log=True),
    ),
    claims=(Claim("TPO ends with the lowest error", "tpo"),),
    x_label="step",
)

TABULAR_MULTI = Study(
    name="tabular_multi",
    title="A hundred contexts, exact updates",
    question="Does TPO share an update better between easy and hard prompts?",
    source="Fig. 4",
    about="100 contexts with 10 arms each and logits from N(0, 1). Every method takes its exact population "
    "update g = beta(p)(e_y - pi), all contexts in one step of norm 0.1, so nothing but beta differs: how "
    "a method shares a step between easy and hard contexts. Misalignment is 1 - cos to cross-entropy. The "
    "error is that after the step.",
    build="many_contexts",
    methods=("pg", "dg", "grpo", "tpo", "ce"),
    settings={"A": 10, "contexts": 100, "step": 0.1},
    scales={
        "smoke": Scale(2, 5, {"contexts": 5}),
        "quick": Scale(10, 1000),
        "full": Scale(100, 1000),
    },
    measures=(
        Measure("error_after", "error", log=True),
        Measure("misalignment", "misalignment to cross-entropy", log=True),
    ),
    claims=(
        Claim("TPO ends below PG, DG and GRPO", "tpo", than=("pg", "dg", "grpo")),
        Claim(
            "TPO is better aligned with cross-entropy than PG, DG and GRPO",
            "tpo", than=("pg", "dg", "grpo"), metric="misalignment",
        ),
    ),
    x_label="step",
)  # fmt: skip

MNIST = Study(
    name="mnist",
    title="MNIST as a bandit",
    question="With one sampled action per image, does TPO's target help a classifier?",
    source="Fig. 5a",
    about="See a digit, name a class, learn only whether it was right. One action per image, an MLP "
    "784-50-50-10, Adam at 0.001, baseline Σ pi², one step per batch. GRPO standardises over the batch. CE is "
    "told the label. The error is that of the most probable class on the test images. The scale smoke "
    "uses the embedded 8x8 digits instead of MNIST.",
    build="images",
    methods=("tpo", "dg", "pg", "grpo", "group_pg", "ce"),
    settings=IMAGES,
    scales={
        "smoke": Scale(2, 10, EMBEDDED),
        "quick": Scale(3, 3000),
        "full": Scale(20, 10_000),
    },
    measures=(TEST,),
    threshold=0.05,
    claims=(
        Claim("TPO ends below every method that is not told the label", "tpo",
              than=("dg", "pg", "grpo", "group_pg")),
        Claim("TPO reaches 5% before DG", "tpo", than=("dg",), metric="steps"),
        Claim("Group PG, with TPO's scores but without its target, ends above PG", "pg",
              than=("group_pg",)),
    ),
    x_label="step",
)  # fmt: skip

MNIST_MECHANISM = Study(
    name="mnist_mechanism",
    title="Why TPO learns MNIST: the concentrated mistakes",
    question="Why does TPO learn MNIST better: where do its updates gain?",
    source="Fig. 5b",
    about="After 2,000 steps of each method on its own network, on misclassified test images: the first-order "
    "gain in p(right) of the method's expected update in logit space, minus the gain of its symmetric "
    "surrogate beta_sym(p)(e_y - pi) at the same policy (appendix C). PG and Group PG are their own "
    "surrogate, so their surplus is 0. Bins of c = max wrong/(1 - p(right)): at c near 1 a single wrong "
    "class has nearly all of the wrong probability.",
    build="mechanism",
    methods=("tpo", "dg", "pg", "group_pg"),
    settings=IMAGES,
    scales={
        "smoke": Scale(2, 10, EMBEDDED),
        "quick": Scale(3, 2000),
        "full": Scale(20, 2000),
    },
    measures=(Measure("surplus", "surplus gain"),),
    claims=(
        Claim("TPO's surplus is above 0 in the top bin", "tpo", "above", metric="surplus"),
        Claim("TPO's surplus grows with concentration, bin by bin", "tpo", "above",
              metric="smallest growth"),
        Claim("DG's surplus is below 0 in every bin", "dg", "below", metric="largest surplus"),
    ),
    view="mechanism",
    x_label="concentration",
)  # fmt: skip

STALENESS = Study(
    name="staleness",
    title="An actor that lags",
    question="How does a lagging actor, as in asynchronous training, hurt each method?",
    source="TPO talk, staleness slide",
    about="MNIST as a bandit, the actor having the learner's parameters of D steps ago. The talk's protocol "
    "is not published; this is ours. MLP 784-100-100-10, Adam at 0.001, 100 images a step, baseline Σ pi² of "
    "the learner, the lag fixed at D and shorter only in the first D steps. REINFORCE and DG use the learner's "
    "log-probs of the actor's actions; PG (IS) weighs them by the exact ratio learner/actor; PPO clips that "
    "ratio at 0.2, one step a batch; TPO's target is anchored to the learner. The scale smoke uses the "
    "embedded 8x8 digits instead of MNIST.",
    build="images",
    methods=("pg", "pg_is", "ppo", "dg", "tpo"),
    settings={**IMAGES, "hidden": (100, 100)},
    grid={"D": (0, 1, 3, 10, 30, 100, 300, 1000)},
    scales={
        "smoke": Scale(2, 10, EMBEDDED, {"D": (3,)}),
        "quick": Scale(3, 2000, grid={"D": (0, 30)}),
        "full": Scale(10, 10_000),
    },
    measures=(TEST,),
    sweep="D",
    threshold=0.05,
    labels={"pg": "REINFORCE"},
    claims=(
        Claim("TPO has the lowest error at every delay", "tpo"),
        Claim("REINFORCE is worse with a delay of 30 than without", "pg",
              where={"D": 0}, versus={"D": 30}),
    ),
    x_label="step",
)  # fmt: skip

TALK = Study(
    name="talk",
    title="Three diagnostics and the simplex",
    question="Do the talk's worked examples follow from the formulas?",
    source="TPO talk; section 3",
    about="Exact, no sampling. How much larger the gradient of an easy prompt (p = 0.95) is than that of a "
    "hard one (p = 0.05) with ten actions, by coefficient and by gradient norm. How TPO changes the "
    "probability of a rare and of a common failure. How far one update can raise a rare success under "
    "clipping and under TPO. And, on three candidates of which the first is right, where one update leads "
    "from every p_old.",
    build="talk",
    methods=("tpo",),
    settings={},
    scales={name: Scale(1, 1) for name in ("smoke", "quick", "full")},
    view="talk",
)

STALENESS_PROTOCOLS = replace(
    STALENESS,
    name="staleness_protocols",
    title="An actor that lags, under four protocols",
    question="Which protocol would explain the talk's numbers on stale actors?",
    about="The study `staleness` again, since the talk publishes no protocol. The baseline is Σ pi² of the "
    "learner, Σ mu² of the actor, or Σ mu·pi (crossed), with the lag fixed at D; or the learner's, with a lag "
    "drawn uniformly from 0..D. Without a delay all are the same. The distance of a protocol to the talk, "
    "fixed before the runs: the mean over methods and D of |log(ours/published)|, ours the mean final error.",
    grid={"protocol": ("learner", "actor", "crossed", "uniform"), "D": (0, 10, 100, 1000)},
    scales={
        "smoke": Scale(2, 10, EMBEDDED, {"D": (3,)}),
        "quick": Scale(3, 2000, grid={"D": (0, 30)}),
        "full": Scale(10, 10_000),
    },
    claims=(),
    extra=True,
)

STUDIES = (TABULAR_SINGLE, TABULAR_MULTI, MNIST, MNIST_MECHANISM)
TALK_STUDIES = (STALENESS, STALENESS_PROTOCOLS, TALK)
