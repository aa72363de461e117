// The formulas of tpo.objectives and tpo.diagnostics.population that the playground shows, for one prompt with K candidates.
// A group is { old, scores }: old[k][t] are token log-probs of the rollout policy; rows may differ in length.
// tests/reports/test_maths.py compares every function with the Python library.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.maths = (() => {
  const LIMIT = 20; // log-ratios are clamped to ±20, as in tpo.objectives.kl
  const TOLERANCE = 5e-7; // differences below this share of the largest score are rounding, as in tpo.groups

  const sum = (x) => x.reduce((a, b) => a + b, 0);
  const mean = (x) => sum(x) / x.length;
  const clip = (x, low, high) => Math.min(Math.max(x, low), high);
  const sigmoid = (x) => 1 / (1 + Math.exp(-x));
  const norm = (x) => Math.sqrt(sum(x.map((v) => v * v)));
  const map2 = (rows, f) => rows.map((row, k) => row.map((x, t) => f(x, k, t)));

  function logSoftmax(x) {
    const top = Math.max(...x);
    const log = top + Math.log(sum(x.map((v) => Math.exp(v - top))));
    return x.map((v) => v - log);
  }
  const softmax = (x) => logSoftmax(x).map(Math.exp);

  // ---- scores to advantages -------------------------------------------------------------------
  const largest = (x) => Math.max(...x.map(Math.abs));
  const constant = (scores) => largest(scores.map((s) => s - scores[0])) <= TOLERANCE * largest(scores);
  function centred(scores) {
    const above = scores.map((s) => (constant(scores) ? 0 : s - scores[0]));
    return above.map((x) => x - mean(above));
  }
  // The deviation is 0 where the scores are equal up to rounding
  const deviation = (scores) => Math.sqrt(mean(centred(scores).map((v) => v * v)));
  function standardize(scores) {
    const sigma = deviation(scores);
    return centred(scores).map((v) => v / (sigma || 1));
  }
  const perToken = (group, a) => map2(group.old, (_, k) => a[k]);

  function abovePosition({ old, scores }) {
    return map2(old, (_, k, t) => scores[k] - mean(scores.filter((_, j) => t < old[j].length)));
  }
  const ADVANTAGES = {
    z: (g) => perToken(g, standardize(g.scores)),
    centred: (g) => perToken(g, centred(g.scores)),
    leave_one_out: (g) => {
      const K = g.scores.length;
      return perToken(g, centred(g.scores).map((a) => (a * K) / (K - 1)));
    },
    over_mean: (g) => perToken(g, centred(g.scores).map((a) => a / (mean(g.scores) + 1e-6))),
    position: abovePosition,
  };

  // ---- weights with which token terms are summed ----------------------------------------------
  function tokenWeights({ old, scores }, over, drop) {
    if (drop && constant(scores)) return map2(old, () => 0);
    const K = old.length;
    const lengths = old.map((row) => row.length);
    const weight = {
      candidate: () => 1 / K,
      group: () => 1,
      sequence: (k) => 1 / lengths[k] / K,
      token: () => 1 / sum(lengths),
      constant: () => 1 / Math.max(...lengths) / K,
    }[over];
    return map2(old, (_, k) => weight(k));
  }

  // ---- the target family ----------------------------------------------------------------------
  function scoreRule(score, old) {
    return {
      offset: score.endsWith("ratio") ? old : null,
      scale: old.map((row) => (score.startsWith("mean") ? 1 / row.length : 1)),
      clip: null,
    };
  }
  const unclipped = (rule, x, k, t) => x - (rule.offset ? rule.offset[k][t] : 0);

  function logScores(logProbs, rule) {
    return logProbs.map((row, k) => {
      const terms = row.map((x, t) => unclipped(rule, x, k, t));
      return sum(rule.clip ? terms.map((x) => clip(x, ...rule.clip)) : terms) * rule.scale[k];
    });
  }
  function pulledBack(c, logProbs, rule) {
    return map2(logProbs, (x, k, t) => {
      const s = unclipped(rule, x, k, t);
      const inside = !rule.clip || (s > rule.clip[0] && s < rule.clip[1]);
      return inside ? c[k] * rule.scale[k] : 0;
    });
  }
  function tilted(logScoresOld, u, eta) {
    return logScoresOld.map((x, k) => x + u[k] / eta);
  }
  function target(logScoresOld, u, eta = 1) {
    return softmax(tilted(logScoresOld, u, eta));
  }
  function logMixture(a, b) {
    const top = Math.max(a, b);
    return top + Math.log((Math.exp(a - top) + Math.exp(b - top)) / 2);
  }
  const DIVERGENCES = {
    reverse: (p, w) => Math.exp(p) * (p - w),
    js: (p, w) => (Math.exp(p) * (p - logMixture(p, w))) / 2,
    alpha: (p, w) => (Math.exp(p) - Math.exp(0.5 * p + 0.5 * w)) / 0.5,
  };

  function preparedTarget(kind, group, options) {
    const score = options.score || kind.score;
    const rule = scoreRule(score, group.old);
    if (kind.clip && rule.offset) rule.clip = [Math.log1p(-options.clip), Math.log1p(options.clip)];
    const u = standardize(group.scores);
    const anchor = kind.anchor ? logScores(group.old, rule) : u.map(() => 0);
    const logQ = logSoftmax(tilted(anchor, u, options.eta));
    return { rule, u, anchor, logQ, q: logQ.map(Math.exp) };
  }
  // p (1 - Q/P): candidates of equal score are pooled, P and Q are the sums of p and q over them
  function pooledGradient(p, q, scores) {
    return p.map((x, k) => {
      const elsewhere = scores.map((s) => s !== scores[k]);
      const own = sum(p.filter((_, j) => !elsewhere[j]));
      return (x / own) * sum(q.map((y, j) => (elsewhere[j] ? y - p[j] : 0)));
    });
  }
  function targetCoefficients(kind, group, options, logProbs) {
    const { rule, logQ, q } = preparedTarget(kind, group, options);
    const logP = logSoftmax(logScores(logProbs, rule));
    if (!kind.divergence) {
      const p = logP.map(Math.exp);
      const c = kind.ties === "pooled" ? pooledGradient(p, q, group.scores) : p.map((x, k) => x - q[k]);
      return pulledBack(c, logProbs, rule);
    }
    const pull = logP.map((x, k) => DIVERGENCES[kind.divergence](x, logQ[k]));
    const total = sum(pull);
    return pulledBack(pull.map((x, k) => x - Math.exp(logP[k]) * total), logProbs, rule);
  }

  // ---- the policy-gradient family: a weight on each log-prob ----------------------------------
  function weightedCoefficients(kind, group, options, logProbs) {
    const weights = tokenWeights(group, kind.over);
    const advantages = ADVANTAGES[kind.advantage](group);
    return map2(logProbs, (x, k, t) => {
      const a = advantages[k][t];
      return -weights[k][t] * kind.gate(x, group.old[k][t], a, options) * a;
    });
  }

  // ---- the ratio family: derivatives of surrogates by the log-ratio x -------------------------
  function clippedSurrogate(x, a, low, high) {
    const r = Math.exp(x);
    return (a > 0 && r > 1 + high) || (a < 0 && r < 1 - low) ? 0 : -r * a;
  }
  const SURROGATES = {
    clipped: (x, a, o) => clippedSurrogate(x, a, o.clip, o.clip),
    clip_higher: (x, a) => clippedSurrogate(x, a, 0.2, 0.28),
    gspo: (x, a) => clippedSurrogate(x, a, 3e-4, 4e-4),
    exact: (x, a) => -Math.exp(x) * a,
    trpo: (x, a) => -Math.exp(x) * a + (Math.exp(x) - 1),
    mirror: (x, a) => Math.exp(x) * (x - a),
    sapo: (x, a) => {
      const gate = sigmoid((a > 0 ? 1 : 1.05) * (Math.exp(x) - 1));
      return -4 * gate * (1 - gate) * Math.exp(x) * a;
    },
  };
  const inside = (x, derivative) => (Math.abs(x) < LIMIT ? derivative : 0);

  // Log-ratio of every token to p_old: its own, the sum over its candidate, or the mean over it
  function logRatios(kind, group, logProbs) {
    const own = map2(logProbs, (x, k, t) => x - group.old[k][t]);
    if (kind.ratio === "token") return own;
    return own.map((row) => row.map(() => sum(row) / (kind.ratio === "mean" ? row.length : 1)));
  }

  function ratioCoefficients(kind, group, options, logProbs) {
    const advantages = ADVANTAGES[kind.advantage](group);
    const whole = kind.ratio !== "token";
    const weights = whole
      ? map2(group.old, () => (kind.over === "group" ? 1 : 1 / group.old.length))
      : tokenWeights(group, kind.over, kind.drop);
    const beta = kind.kl ? options.beta : 0;
    return map2(logRatios(kind, group, logProbs), (x, k, t) => {
      const length = kind.ratio === "mean" ? logProbs[k].length : 1;
      const clamped = clip(x, -LIMIT, LIMIT);
      const gain = inside(x, SURROGATES[kind.surrogate](clamped, advantages[k][t], options));
      const penalty = beta ? beta * inside(x, 1 - Math.exp(-clamped)) : 0;
      return (weights[k][t] * (gain + penalty)) / length;
    });
  }

  // ---- the objectives by name -----------------------------------------------------------------
  const fit = (label, rest) => ({ label, coefficientsOf: targetCoefficients, family: "target", ...rest });
  const weigh = (label, advantage, over, gate = () => 1) => ({
    label, coefficientsOf: weightedCoefficients, family: "policy gradient", advantage, over, gate,
  });
  const ratio = (label, surrogate, advantage, over, rest) => ({
    label, coefficientsOf: ratioCoefficients, family: "ratio", surrogate, advantage, over, ratio: "token", ...rest,
  });
  const tpoKind = { score: "sum", anchor: true };
  const lpoKind = { score: "mean_ratio", anchor: true, clip: true };
  const OBJECTIVES = {
    tpo: fit("TPO", tpoKind),
    tpo_no_anchor: fit("TPO, no anchor", { ...tpoKind, anchor: false }),
    tpo_outcomes: fit("TPO, pooled ties", { ...tpoKind, ties: "pooled" }),
    lpo: fit("LPO", lpoKind),
    lpo_reverse: fit("LPO, reverse KL", { ...lpoKind, divergence: "reverse" }),
    group_pg: weigh("Group PG", "z", "group"),
    grpo: ratio("GRPO, sequence", "clipped", "z", "group", { ratio: "sequence", kl: true }),
    ppo: ratio("PPO", "clipped", "position", "candidate"),
    dg: weigh("DG", "position", "candidate", (x, _, a, o) => sigmoid((-a * x) / o.gateTemperature)),
    reinforce: weigh("REINFORCE", "position", "candidate"),
    grpo_no_kl: ratio("GRPO, no KL", "clipped", "z", "group", { ratio: "sequence" }),
    grpo_token: ratio("GRPO, token", "clipped", "z", "sequence", { kl: true }),
    dr_grpo: ratio("Dr. GRPO", "clipped", "centred", "constant"),
    dapo: ratio("DAPO", "clip_higher", "z", "token", { drop: true }),
    gspo: ratio("GSPO", "gspo", "z", "sequence", { ratio: "mean" }),
    sapo: ratio("SAPO", "sapo", "z", "sequence"),
    cispo: weigh("CISPO", "z", "token", (x, old) => clip(Math.exp(clip(x - old, -LIMIT, LIMIT)), 0, 5)),
    rloo: weigh("RLOO", "leave_one_out", "candidate"),
    maxrl: weigh("MaxRL", "over_mean", "candidate"),
    pg_is: ratio("PG, exact IS", "exact", "centred", "candidate", { ratio: "sequence" }),
    trpo_penalty: ratio("TRPO penalty", "trpo", "position", "candidate"),
    mdpo: ratio("MDPO", "mirror", "position", "candidate"),
    lpo_js: fit("LPO, JS", { ...lpoKind, divergence: "js" }),
    lpo_alpha: fit("LPO, alpha", { ...lpoKind, divergence: "alpha" }),
  };
  const DEFAULTS = { eta: 1, score: "", clip: 0.2, beta: 0.04, gateTemperature: 1 };

  // dL/d log-prob of every token, [k][t]
  function coefficients(name, group, options, logProbs) {
    const kind = OBJECTIVES[name];
    return kind.coefficientsOf(kind, group, { ...DEFAULTS, ...options }, logProbs);
  }
  // The target q of a target objective, and the P that is fitted to it at candidate log-probs logP
  function fitted(name, group, options, logP) {
    const { rule, q } = preparedTarget(OBJECTIVES[name], group, { ...DEFAULTS, ...options });
    const logProbs = tokens(logP, group.old.map((row) => row.length));
    return { q, P: softmax(logScores(logProbs, rule)) };
  }
  // Eq. 2 in its parts: q = weight / total, weight = anchor * tilt, tilt = exp(u / eta)
  function targetParts(name, group, options) {
    const chosen = { ...DEFAULTS, ...options };
    const { u, anchor, q } = preparedTarget(OBJECTIVES[name], group, chosen);
    const tilt = u.map((x) => Math.exp(x / chosen.eta));
    const weight = tilt.map((x, k) => Math.exp(anchor[k]) * x);
    return { mean: mean(group.scores), deviation: deviation(group.scores), u, tilt, anchor: anchor.map(Math.exp),
      weight, total: sum(weight), q };
  }
  // What a policy gradient or a ratio objective multiplies, as means over each candidate's tokens
  function policyParts(name, group, options, logP) {
    const kind = OBJECTIVES[name];
    const chosen = { ...DEFAULTS, ...options };
    const logProbs = tokens(logP, group.old.map((row) => row.length));
    const advantages = ADVANTAGES[kind.advantage](group);
    const shown = { advantage: advantages.map(mean) };
    if (kind.gate) {
      const gates = map2(logProbs, (x, k, t) => kind.gate(x, group.old[k][t], advantages[k][t], chosen));
      return { ...shown, gate: gates.map(mean) };
    }
    const logs = logRatios(kind, group, logProbs);
    const gains = map2(logs, (x, k, t) => SURROGATES[kind.surrogate](x, advantages[k][t], chosen));
    const clipped = gains.map((row, k) => advantages[k].some((a) => a !== 0) && row.every((g) => g === 0));
    return { ...shown, ratio: logs.map((row) => Math.exp(mean(row))), clipped };
  }

  // ---- a policy that is one softmax over the K candidates -------------------------------------
  // A candidate's log-probability is shared evenly by its tokens.
  const tokens = (logP, lengths) =>
    logP.map((x, k) => Array.from({ length: lengths[k] }, () => x / lengths[k]));
  const groupOf = (pOld, scores, lengths) => ({ old: tokens(pOld.map(Math.log), lengths), scores });

  // -dL/d log p of each candidate
  function push(name, group, options, logP) {
    const c = coefficients(name, group, options, tokens(logP, group.old.map((row) => row.length)));
    return c.map((row) => -sum(row) / row.length);
  }
  // Gradient descent on the logits: p, and the norm of the logits' gradient, at the start of each epoch.
  // start: the policy's probabilities before the first epoch, where they are not those of the rollouts
  function descent(name, group, options, step, epochs, start = null) {
    let logits = start ? start.map(Math.log) : group.old.map(sum);
    const path = { p: [], norms: [] };
    for (let epoch = 0; epoch <= epochs; epoch++) {
      const logP = logSoftmax(logits);
      const up = push(name, group, options, logP);
      const total = sum(up);
      const direction = up.map((x, k) => x - Math.exp(logP[k]) * total);
      path.p.push(logP.map(Math.exp));
      path.norms.push(norm(direction));
      logits = logits.map((x, k) => x + step * direction[k]);
    }
    return path;
  }

  // ---- diagnostics of the talk ----------------------------------------------------------------
  const METHODS = ["ce", "pg", "dg", "grpo", "tpo"];
  const oddsFactor = (arms) => Math.exp(arms / Math.sqrt(arms - 1));
  function populationBeta(method, p, arms) {
    const f = oddsFactor(arms);
    return {
      ce: 1,
      pg: p,
      dg: p / (1 + p),
      grpo: Math.sqrt(p / (1 - p)),
      tpo: (p * (f - 1)) / (1 - p + f * p),
    }[method];
  }
  function gradientShare(easy, hard, arms) {
    return METHODS.map((method) => {
      const coefficient = populationBeta(method, easy, arms) / populationBeta(method, hard, arms);
      return { method, coefficient, gradient: (coefficient * (1 - easy)) / (1 - hard) };
    });
  }
  // TPO's q for the one success of probability p among k candidates
  function rareTarget(p, k) {
    const pOld = Array.from({ length: k }, (_, i) => (i ? (1 - p) / (k - 1) : p));
    return target(pOld.map(Math.log), standardize(pOld.map((_, i) => (i ? 0 : 1))))[0];
  }
  // The highest probability that one update may give a success of probability p
  function clipBound(p, width, sizes) {
    return { clipped: Math.min((1 + width) * p, 1), target: sizes.map((k) => rareTarget(p, k)) };
  }
  function rareFailure(pOld, rewards) {
    return target(pOld.map(Math.log), standardize(rewards)).map((q, k) => q - pOld[k]);
  }

  return {
    OBJECTIVES, DEFAULTS, standardize, target, softmax, coefficients, fitted, targetParts, policyParts, push, descent,
    groupOf, populationBeta, gradientShare, clipBound, rareFailure, norm, sum,
  };
})();
