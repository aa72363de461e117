// The candidates of the playground: a row each, with p_old to drag, a score, a length, and the bars of p and q.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.candidates = (() => {
  const { el, number } = tpo.dom;
  const NAMES = "ABCDEFGH";
  const LEAST = 0.001;

  // Candidate k gets this probability, the others are rescaled so that the sum stays 1
  function withProbability(pOld, k, value) {
    const most = 1 - LEAST * (pOld.length - 1);
    const wanted = Math.min(Math.max(value, LEAST), most);
    const rest = pOld.reduce((a, p, j) => (j === k ? a : a + p), 0);
    const scaled = pOld.map((p, j) => (j === k ? wanted : Math.max((p / rest) * (1 - wanted), LEAST)));
    const others = scaled.reduce((a, p, j) => (j === k ? a : a + p), 0);
    return scaled.map((p, j) => (j === k ? wanted : (p / others) * (1 - wanted)));
  }

  function mount(host, state, changed) {
    let rows = [];
    function build() {
      rows = state.pOld.map((_, k) => row(state, k, changed));
      host.replaceChildren(header(), ...rows.map((r) => r.node));
    }
    // shown: { p, P, q, comparable } to draw; P is p unless the sequence score says otherwise
    function update(shown) {
      if (rows.length !== state.pOld.length) build();
      rows.forEach((r, k) => r.update(state, shown, k));
    }
    return { update };
  }

  const header = () => el("div.candidate.head", { "aria-hidden": "true" },
    el("span"), el("span", {}, "probability"), el("span", {}, "score"), el("span", {}, "tokens"));

  function row(state, k, changed) {
    const name = NAMES[k];
    const slider = el("input", { type: "range", min: 0, max: 1, step: "any",
      "aria-label": `p_old of candidate ${name}`, "data-slider": k });
    slider.addEventListener("input", () => {
      state.pOld = withProbability(state.pOld, k, Number(slider.value));
      changed();
    });
    const score = field("score", k, { step: 0.1 }, (v) => { state.scores[k] = v; changed(); });
    const length = field("length", k, { step: 1, min: 1, max: 99 }, (v) => {
      state.lengths[k] = Math.min(Math.max(Math.round(v), 1), 99);
      changed();
    });
    const c = `c${k}`;
    const bars = Object.fromEntries(Object.keys(SYMBOLS).map((kind) => [kind, bar(kind, c)]));
    const node = el("div.candidate", { role: "group", "aria-label": `candidate ${name}` },
      el(`b.letter.${c}`, {}, name), el("div.bars", {}, slider, Object.values(bars).map((b) => b.node)), score, length);
    return { node, update: (now, shown) => refresh(now, shown, k, { slider, score, length, bars }) };
  }

  function field(what, k, limits, act) {
    const input = el("input.field", { type: "number", ...limits,
      "aria-label": `${what} of candidate ${NAMES[k]}`, [`data-${what}`]: k });
    input.addEventListener("input", () => {
      const value = Number(input.value);
      if (input.value !== "" && Number.isFinite(value)) act(value);
    });
    return input;
  }
  const SYMBOLS = { old: "p old", now: "p", fit: "P", goal: "q" };
  function bar(kind, c) {
    const fill = el("i");
    const text = el("output", { "data-shown": kind });
    const node = el(`div.bar-row.${kind}.${c}`, {}, el("span", {}, SYMBOLS[kind]), el("div.track", {}, fill), text);
    return { node, fill, text };
  }

  function refresh(state, shown, k, { slider, score, length, bars }) {
    slider.value = state.pOld[k];
    slider.setAttribute("aria-valuetext", number(state.pOld[k]));
    tpo.sliders.paint(slider);
    if (Number(score.value) !== state.scores[k] || score.value === "") keep(score, state.scores[k]);
    if (Number(length.value) !== state.lengths[k]) keep(length, state.lengths[k]);
    const values = { old: state.pOld[k], now: shown.p[k], fit: shown.P[k], goal: shown.q[k] };
    for (const [kind, value] of Object.entries(values)) {
      const { node, fill, text } = bars[kind];
      node.hidden = kind === "fit" && shown.comparable;
      fill.style.width = `${100 * value}%`;
      text.textContent = value < 0.001 ? "<.001" : value.toFixed(3).replace(/^0/, "");
      text.dataset.value = value;
    }
  }
  // A field that is being typed into is left alone
  function keep(input, value) {
    if (document.activeElement !== input) input.value = value;
  }

  return { mount, NAMES };
})();
