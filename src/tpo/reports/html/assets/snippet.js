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

  function text(state) {
    const list = (x) => `[${x.join(", ")}]`;
    return [
      "import numpy as np",
      "import tpo",
      "",
      `p_old = np.array(${list(state.pOld)})`,
      `scores = np.array(${list(state.scores)}, dtype=float)`,
      `lengths = np.array(${list(state.lengths)})`,
      "",
      "mask = np.arange(lengths.max()) < lengths[:, None]",
      "log_probs = np.where(mask, (np.log(p_old) / lengths)[:, None], 0.0)[None]  # [1, K, T]",
      "groups = tpo.Groups(log_probs_old=log_probs, scores=scores[None], mask=mask[None])",
      `objective = ${call(state.name, state.options)}`,
      "prepared = objective.prepare(groups)",
      "c = objective.coefficients(log_probs, prepared)  # dL/d log-prob of each token, at the rollout policy",
      "push = -c[0].sum(-1) / lengths",
      "print(push)",
    ].join("\n");
  }

  return { text };
})();
