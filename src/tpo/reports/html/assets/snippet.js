// The playground's state as a few lines of Python that give the same numbers.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.snippet = (() => {
  const CLIPPED = ["ppo", "grpo", "grpo_no_kl", "grpo_token", "dr_grpo"];
  const NAMES = { grpo: ["grpo", { granularity: "sequence" }], grpo_token: ["grpo", {}],
    grpo_no_kl: ["grpo_no_kl", { granularity: "sequence" }] };

  function call(name, options) {
    const [known, fixed] = NAMES[name] || [name, {}];
    const chosen = { ...fixed };
    const kind = tpo.maths.OBJECTIVES[name];
    if (kind.family === "target") {
      chosen.eta = options.eta;
      if (options.score) chosen.score = options.score;
    }
    if (kind.clip || CLIPPED.includes(name)) chosen.clip = options.clip;
    if (name === "grpo" || name === "grpo_token") chosen.beta = options.beta;
    if (name === "dg") chosen.gate_temperature = options.gateTemperature;
    const text = Object.entries(chosen).map(([key, value]) => `, ${key}=${JSON.stringify(value)}`).join("");
    return `tpo.objective("${known}"${text})`;
  }

  // p: the policy now, where the push is taken unless it is taken at p_old
  function text(state, p) {
    const list = (x) => `[${x.join(", ")}]`;
    return [
      "import numpy as np",
      "import tpo",
      "",
      `p_old = np.array(${list(state.pOld)})`,
      `p = ${state.at === "old" ? "p_old" : `np.array(${list(p)})`}`,
      `scores = np.array(${list(state.scores)}, dtype=float)`,
      `lengths = np.array(${list(state.lengths)})`,
      "",
      "mask = np.arange(lengths.max()) < lengths[:, None]",
      "def tokens(p):  # [1, K, T]: the tokens of a candidate share its log-probability",
      "    return np.where(mask, (np.log(p) / lengths)[:, None], 0.0)[None]",
      "",
      "groups = tpo.Groups(log_probs_old=tokens(p_old), scores=scores[None], mask=mask[None])",
      `objective = ${call(state.name, state.options)}`,
      "prepared = objective.prepare(groups)",
      "c = objective.coefficients(tokens(p), prepared)  # dL/d log-prob of each token",
      "push = -c[0].sum(-1) / lengths",
      "print(push)",
    ].join("\n");
  }

  return { text };
})();
