// The formulas with the current numbers: u and the target q of one candidate, the push on it, and a row per candidate.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.formula = (() => {
  const { el, number, changes } = tpo.dom;
  const M = tpo.maths;
  const NAMES = "ABCDEFGH";

  // ---- MathML ---------------------------------------------------------------------------------
  const math = (tag, ...children) => {
    const node = document.createElementNS("http://www.w3.org/1998/Math/MathML", tag);
    node.append(...children);
    return node;
  };
  const id = (text) => math("mi", text);
  const op = (text) => math("mo", text);
  const value = (x) => {
    if (Math.abs(x) < 1e-12) return math("mn", "0");
    if (x < 0) return math("mrow", op("("), op("−"), math("mn", number(-x)), op(")"));
    const [digits, power] = number(x).split("e");
    if (!power) return math("mn", digits);
    const raised = math("mrow", ...(power < 0 ? [op("−")] : []), math("mn", String(Math.abs(power))));
    return math("mrow", math("mn", digits), op("·"), math("msup", math("mn", "10"), raised));
  };
  const row = (...parts) => math("mrow", ...parts);
  const sub = (name, k) => math("msub", id(name), id(k));
  const old = (k) => math("msubsup", id("p"), id(k), math("mtext", "old"));
  const over = (top, bottom) => math("mfrac", top, bottom);
  const exp = (of) => row(id("exp"), op("("), of, op(")"));
  // Pieces wrap between, never within
  const line = (...pieces) => el("div.formula", {}, pieces.map((parts) => {
    const node = math("math", ...parts);
    node.setAttribute("displaystyle", "true");
    return node;
  }));

  // ---- the target -----------------------------------------------------------------------------
  function scoreLine(parts, scores, k) {
    const name = NAMES[k];
    const meaning = over(row(sub("s", name), op("−"), math("mover", id("s"), op("¯"))), id("σ"));
    if (!parts.deviation) return line([sub("u", name), op("="), meaning], [op("="), value(0), math("mtext", "\u00a0because σ = 0")]);
    return line([sub("u", name), op("="), meaning],
      [op("="), over(row(value(scores[k]), op("−"), value(parts.mean)), value(parts.deviation))],
      [op("="), value(parts.u[k])]);
  }
  function targetLine(parts, anchor, eta, k) {
    const name = NAMES[k];
    const tilt = (j) => exp(row(sub("u", j), op("/"), id("η")));
    return line(
      [sub("q", name), op("="), over(row(anchor(name), op("·"), tilt(name)), row(op("∑"), anchor("j"), op("·"), tilt("j")))],
      [op("="), over(row(value(parts.anchor[k]), op("·"), exp(row(value(parts.u[k]), op("/"), value(eta)))), value(parts.total))],
      [op("="), over(row(value(parts.anchor[k]), op("·"), value(parts.tilt[k])), value(parts.total))],
      [op("="), math("mstyle", value(parts.q[k]))]);
  }

  // Candidates as rows, of which one is picked for the formulas
  function table(caption, heads, rows, picked, pick, foot = null) {
    const head = el("tr", {}, el("th", { scope: "col" }, el("span.visually-hidden", {}, "candidate")),
      heads.map((text) => el("th.number", { scope: "col" }, text)));
    const body = rows.map((cells, k) => el("tr", { class: k === picked ? "picked" : null },
      el("th", { scope: "row" }, letter(k, picked, pick)),
      cells.map((cell) => el("td.number", typeof cell === "number" ? { "data-value": cell } : {}, show(cell)))));
    const sums = foot && el("tr.sums", {}, el("th", { scope: "row" }, "Σ"), foot.map((cell) => el("td.number", {}, show(cell))));
    return el("div.parts", {}, el("table", { "aria-label": caption }, el("thead", {}, head), el("tbody", {}, body, sums)));
  }
  // Small numbers as powers of ten, rounding errors as 0
  function show(cell) {
    if (typeof cell !== "number") return cell;
    const size = Math.abs(cell);
    return (size > 0 && size < 1e-3 ? tpo.scales.tickText(size < 1e-12 ? 0 : cell) : number(cell)).replace("-", "−");
  }
  const letter = (k, picked, pick) => el(`button.letter.c${k}`, { type: "button", "data-pick": k,
    "aria-pressed": String(k === picked), "aria-label": `candidate ${NAMES[k]} in the formula`,
    onclick: () => pick(k) }, NAMES[k]);

  // The factor of exp(u/eta) in Eq. 2 under the sequence score of the objective: p_old, exp(score), or 1 without an anchor
  function anchorOf(name, options) {
    if (!M.OBJECTIVES[name].anchor) return { of: () => math("mn", "1"), head: "1" };
    const score = options.score || M.OBJECTIVES[name].score;
    if (score === "sum") return { of: old, head: "p old" };
    const ell = (k) => math("msubsup", id("ℓ"), id(k), math("mtext", "old"));
    return { of: (k) => exp(ell(k)), head: "exp ℓ old" };
  }

  function target(host, pick) {
    const title = el("h3");
    const body = el("div.target");
    host.append(title, body);
    const changed = changes();
    return (state, { target: name, parts }) => {
      if (!changed(name, parts, state.scores, state.options, state.picked)) return;
      const anchor = anchorOf(name, state.options);
      const eta = state.options.eta;
      title.replaceChildren(`The target q of ${M.OBJECTIVES[name].label}`);
      const rows = parts.u.map((u, k) => [state.scores[k], u, parts.tilt[k], parts.anchor[k], parts.weight[k], parts.q[k]]);
      body.replaceChildren(
        scoreLine(parts, state.scores, state.picked),
        targetLine(parts, anchor.of, eta, state.picked),
        table("The target of each candidate", ["score s", "u", "exp(u/η)", anchor.head, "product", "q"], rows, state.picked, pick,
          ["", "", "", "", parts.total, M.sum(parts.q)]));
    };
  }

  // ---- the push of the selected objective -----------------------------------------------------
  const CLIPPED = "Push = weight · ratio r · advantage, and 0 where r has left the clip range on the side that the advantage asks for.";
  const SURROGATES = {
    clipped: CLIPPED, clip_higher: CLIPPED, gspo: CLIPPED,
    exact: "Push = weight · r · advantage, at every ratio r.",
    trpo: "Push = weight · (r · advantage − (r − 1)), at every ratio r.",
    mirror: "Push = weight · r · (advantage − log r), at every ratio r.",
    sapo: "Push = weight · 4σ(1 − σ) · r · advantage, where σ is the logistic function of τ(r − 1).",
  };
  function rule(kind, options) {
    if (kind.family === "policy gradient") return "Push = weight · gate · advantage. Where the gate is 1, the push is the same in every epoch.";
    if (kind.family === "ratio") return SURROGATES[kind.surrogate] + (kind.kl ? " The KL term adds −weight · β · (1 − 1/r)." : "");
    if (kind.divergence || kind.ties) return "Push = −∂L/∂ log p, which is 0 where P has reached q.";
    const score = options.score || kind.score;
    return `Push = ${score.startsWith("mean") ? "(q − P) / tokens" : "q − P"}` + (score === "sum" ? ", and P is p." : ".") +
      (kind.clip && score.endsWith("ratio") ? " It is 0 where a token's ratio is clipped." : "");
  }
  function pushTable(state, found, pick) {
    const push = found.pushes[state.name];
    const kind = M.OBJECTIVES[state.name];
    if (kind.family === "target") {
      return table("Push on each candidate", ["q", "P", "push"], push.map((x, k) => [found.parts.q[k], found.here[k], x]), state.picked, pick);
    }
    const { advantage, gate, ratio, clipped } = found.policy;
    if (gate) return table("Push on each candidate", ["advantage", "gate", "push"], push.map((x, k) => [advantage[k], gate[k], x]), state.picked, pick);
    const rows = push.map((x, k) => [advantage[k], ratio[k], clipped[k] ? "clipped" : "", x]);
    return table("Push on each candidate", ["advantage", "r", "", "push"], rows, state.picked, pick);
  }
  function push(host, pick) {
    const title = el("h3");
    const words = el("p");
    const body = el("div");
    host.append(title, words, body);
    const changed = changes();
    return (state, found) => {
      const { parts, here, policy, pushes } = found;
      if (!changed(state.name, state.at, state.options, state.lengths, state.picked, parts, here, policy, pushes[state.name])) return;
      const kind = M.OBJECTIVES[state.name];
      title.textContent = `The push of ${kind.label} ${state.at === "old" ? "at p old" : "at p now"}`;
      const means = found.policy && state.lengths.some((n) => n > 1) ? " Each factor is shown as its mean over the tokens." : "";
      words.textContent = rule(kind, state.options) + means;
      body.replaceChildren(pushTable(state, found, pick));
    };
  }

  return { target, push };
})();
