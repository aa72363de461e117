// The left side: how many candidates, which objective, the candidates themselves, and the options.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.controls = (() => {
  const { el, choice } = tpo.dom;
  const { dial } = tpo.sliders;
  const M = tpo.maths;
  const SIZES = [2, 3, 4, 5, 6, 7, 8].map((k) => [String(k), String(k)]);
  const SCORES = [["", "as published"], ["sum", "sum"], ["mean", "mean"], ["ratio", "ratio"], ["mean_ratio", "mean ratio"]];

  const row = (label, id, field) => el("div.line", {}, id ? el("label", { for: id }, label) : el("span", {}, label), field);
  function menu(id, entries, act) {
    const select = el("select", { id }, entries.map(([value, text]) => el("option", { value }, text)));
    select.addEventListener("change", () => act(select.value));
    return select;
  }
  // Those of TPO, and those of the other methods
  const dials = () => [
    { eta: dial("temperature η", 0.1, 10, 1, true), step: dial("step size", 0.01, 20, 1, true) },
    { clip: dial("clip (PPO, GRPO, LPO)", 0.05, 0.5, 0.2), beta: dial("KL weight β (GRPO)", 0.001, 1, 0.04, true),
      gateTemperature: dial("gate temperature (DG)", 0.1, 10, 1, true) },
  ];

  function mount(host, state, { change, resize }) {
    const set = (act) => (value) => { act(value); change(); };
    const K = choice("Candidates K", SIZES, "4", set((v) => resize(Number(v))));
    const objectives = Object.entries(M.OBJECTIVES).map(([name, kind]) => [name, kind.label]);
    const objective = menu("objective", objectives, set((v) => { state.name = v; }));
    const score = menu("score", SCORES, set((v) => { state.options.score = v; }));
    const [first, others] = dials();
    const holder = (key) => (key === "step" ? state : state.options);
    const all = Object.entries({ ...first, ...others });
    for (const [key, { input, value }] of all) {
      input.dataset.dial = key;
      input.addEventListener("input", () => set((v) => { holder(key)[key] = v; })(value()));
    }
    const candidates = el("div.candidates");
    const moved = el("p.small", {}, "p starts away from p old: the policy has moved since the rollouts. ",
      el("button.plain", { type: "button", onclick: set(() => { state.start = null; }) }, "Start at p old"));
    const fitted = el("p.small", {}, "Under this sequence score, q is the target of P: the softmax over the " +
      "candidates' scores, not their probabilities p.");
    host.append(row("candidates K", null, K), row("objective", "objective", objective), candidates, moved, fitted,
      el("div.dials", {}, Object.values(first).map((d) => d.node)),
      el("details", { open: matchMedia("(min-width: 901px)").matches }, el("summary", {}, "Sequence score, options of other methods"),
        row("sequence score", "score", score), el("div.dials", {}, Object.values(others).map((d) => d.node))));
    const rows = tpo.candidates.mount(candidates, state, change);
    return (found) => {
      rows.update(found);
      moved.hidden = !state.start;
      fitted.hidden = found.comparable;
      objective.value = state.name;
      score.value = state.options.score;
      for (const [key, one] of all) if (Math.abs(one.value() - holder(key)[key]) > 1e-9) one.set(holder(key)[key]);
      for (const b of K.children) b.setAttribute("aria-pressed", String(Number(b.dataset.value) === state.pOld.length));
    };
  }

  return { mount };
})();
