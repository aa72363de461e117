// The playground: its state, its controls and its results.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.playground = (() => {
  const { el, number, choice, toggle } = tpo.dom;
  const { MAIN, slider } = tpo.pictures;
  const M = tpo.maths;
  const ones = (n) => Array.from({ length: n }, () => 1);

  const PRESETS = {
    "rare failure": { pOld: [0.72, 0.144, 0.12, 0.016], scores: [0, 1, 1, 0] },
    "three candidates": { pOld: [0.2, 0.5, 0.3], scores: [1, 0, 0] },
    "rare success": { pOld: [0.01, ...ones(7).map(() => 0.99 / 7)], scores: [1, 0, 0, 0, 0, 0, 0, 0] },
    "all fail": { pOld: [0.4, 0.3, 0.2, 0.1], scores: [0, 0, 0, 0] },
    "graded scores": { pOld: [0.3, 0.25, 0.2, 0.15, 0.1], scores: [0.1, 0.4, 0.5, 0.7, 1] },
    "unequal lengths": { pOld: [0.55, 0.3, 0.1, 0.05], scores: [0, 1, 1, 0], lengths: [4, 15, 20, 35] },
  };
  const state = {
    pOld: [], scores: [], lengths: [], name: "tpo", options: { ...M.DEFAULTS }, step: 1, epochs: 16,
    ownScale: false, all: false, at: "old",
  };
  function load(preset) {
    state.pOld = [...preset.pOld];
    state.scores = [...preset.scores];
    state.lengths = preset.lengths ? [...preset.lengths] : ones(preset.pOld.length);
  }
  function resize(K) {
    const grown = Array.from({ length: K }, (_, k) => (k < state.pOld.length ? state.pOld[k] : 1 / K));
    const total = M.sum(grown);
    state.pOld = grown.map((p) => p / total);
    state.scores = Array.from({ length: K }, (_, k) => state.scores[k] ?? 0);
    state.lengths = Array.from({ length: K }, (_, k) => state.lengths[k] ?? 1);
  }

  // Everything the page shows, from the state
  function results() {
    const group = M.groupOf(state.pOld, state.scores, state.lengths);
    const run = (name) => M.descent(name, group, state.options, state.step, state.epochs);
    const path = run(state.name);
    const p = path.p.at(-1);
    const names = state.all ? Object.keys(M.OBJECTIVES) : MAIN;
    const target = M.OBJECTIVES[state.name].family === "target" ? state.name : "tpo";
    const { q, P } = M.fitted(target, group, state.options, p.map(Math.log));
    const comparable = (state.options.score || M.OBJECTIVES[target].score) === "sum";
    const here = (state.at === "old" ? state.pOld : p).map(Math.log);
    const pushes = Object.fromEntries(names.map((n) => [n, M.push(n, group, state.options, here)]));
    const norms = Object.fromEntries([...new Set([...MAIN, state.name])].map((n) => [n, run(n).norms]));
    return { path, p, q, P, comparable, pushes, norms, first: M.push("tpo", group, state.options, state.pOld.map(Math.log)) };
  }

  function mount(host) {
    load(PRESETS["rare failure"]);
    if (tpo.link.read(location.hash, state)) host.scrollIntoView();
    addEventListener("hashchange", () => { if (tpo.link.read(location.hash, state)) update(); });
    const left = el("div.controls");
    const right = el("div.results");
    host.append(el("div.workspace", {}, left, right));
    const controls = buildControls(left);
    const rows = tpo.candidates.mount(controls.rows, state, () => update());
    const words = el("p.live", { "aria-live": "polite" });
    const draw = pictures(right, words, () => update());
    const code = el("code");
    right.append(el("details", {}, el("summary", {}, "The same in Python"), el("pre.snippet", {}, code)),
      el("a.small", { id: "link", href: "#playground", onclick: share }, "Link to these settings (puts them into the address)"));
    const talk = el("div.talk");
    host.append(talk);
    tpo.pictures.clipBound(talk.appendChild(el("section")));
    tpo.pictures.share(talk.appendChild(el("section")));

    function update() {
      const found = results();
      controls.update();
      rows.update(found);
      draw(found);
      controls.note.hidden = found.comparable;
      words.textContent = sentence(found);
      code.textContent = tpo.snippet.text(state);
    }
    controls.onchange = update;
    update();
  }

  function share(event) {
    event.preventDefault();
    location.hash = tpo.link.write(state);
  }

  function pictures(right, words, update) {
    // First, so that no text of changing length above it moves it while it is dragged
    const triangle = tpo.pictures.triangle(right, state, update);
    const place = (title, ...children) => right.appendChild(el("section", {}, el("h3", {}, title), ...children));
    const scales = el("div.switches", {},
      choice("Policy at which the push is taken", [["old", "at p old"], ["now", "at p, after the epochs"]], "old", (v) => { state.at = v; update(); }),
      toggle("own scale for each", false, (on) => { state.ownScale = on; update(); }),
      toggle("all objectives", false, (on) => { state.all = on; update(); }));
    const pushes = tpo.pictures.pushes(
      place("Push on each candidate", el("p", {}, "−∂L/∂ log p of each candidate, for every objective: up is more probable, " +
        "down less. Select an objective to train with it."), scales, words),
      (name) => { state.name = name; update(); refocus(name); });
    const epochs = tpo.pictures.epochs(place("Epochs on this group"));
    return (found) => {
      pushes(state, found.pushes);
      triangle(found.path, found.comparable ? found.q : null);
      epochs(state, found.path, found.norms);
    };
  }
  // The buttons are new after each update: give the keyboard focus back
  const refocus = (name) => document.querySelector(`[data-push="${name}"]`).focus();

  const scoreNote = () => el("p.small", {}, "Under this sequence score, q is the target of P: the softmax over the " +
    "candidates' scores, not their probabilities p.");

  function buildControls(left) {
    const api = { onchange: () => {}, rows: el("div.candidates"), note: scoreNote(), update: () => {} };
    const set = (act) => (value) => { act(value); api.onchange(); };
    const names = Object.entries(M.OBJECTIVES).map(([name, kind]) => el("option", { value: name }, kind.label));
    const objective = el("select", { id: "objective" }, names);
    objective.addEventListener("change", () => set((v) => { state.name = v; })(objective.value));
    const sizes = [2, 3, 4, 5, 6, 7, 8].map((k) => [String(k), String(k)]);
    const K = choice("Candidates K", sizes, "4", set((v) => resize(Number(v))));
    const score = el("select", { id: "score" }, [["", "as published"], ["sum", "sum"], ["mean", "mean"],
      ["ratio", "ratio"], ["mean_ratio", "mean ratio"]].map(([v, t]) => el("option", { value: v }, t)));
    score.addEventListener("change", () => set((v) => { state.options.score = v; })(score.value));
    const dials = {
      eta: slider("eta", 0.1, 10, 1, true), step: slider("step size", 0.01, 20, 1, true),
      epochs: slider("epochs", 0, 64, 16, false, 1), clip: slider("clip", 0.05, 0.5, 0.2),
      beta: slider("KL weight beta", 0.001, 1, 0.04, true), gateTemperature: slider("gate temperature (DG)", 0.1, 10, 1, true),
    };
    for (const [key, dial] of Object.entries(dials)) {
      const holder = key === "step" || key === "epochs" ? state : state.options;
      dial.input.dataset.dial = key;
      dial.input.addEventListener("input", () => { holder[key] = dial.value(); api.onchange(); });
    }
    const presets = el("div.presets", { role: "group", "aria-label": "Examples" },
      Object.keys(PRESETS).map((name) => el("button", { type: "button", onclick: () => { load(PRESETS[name]); api.onchange(); } }, name)));
    left.append(presets, el("div.line", {}, el("span", {}, "K"), K),
      el("div.line", {}, el("label", { for: "objective" }, "objective"), objective),
      el("div.line", {}, el("label", { for: "score" }, "sequence score"), score),
      api.rows, api.note, el("div.dials", {}, Object.values(dials).map((d) => d.node)));
    api.update = () => {
      objective.value = state.name;
      score.value = state.options.score;
      for (const [key, dial] of Object.entries(dials)) {
        const value = key === "step" || key === "epochs" ? state[key] : state.options[key];
        if (Math.abs(dial.value() - value) > 1e-9) dial.set(value);
      }
      for (const b of K.children) b.setAttribute("aria-pressed", String(Number(b.dataset.value) === state.pOld.length));
    };
    return api;
  }

  // The talk's statement about rare failures, for the current group
  function sentence({ first }) {
    const low = Math.min(...state.scores);
    const failures = state.pOld.map((_, k) => k).filter((k) => state.scores[k] === low);
    if (failures.length === state.scores.length) return "All candidates score alike: the group is not informative, and TPO's target is p old itself.";
    if (failures.length < 2) return "";
    const [common, rare] = [failures.reduce((a, b) => (state.pOld[b] > state.pOld[a] ? b : a)),
      failures.reduce((a, b) => (state.pOld[b] < state.pOld[a] ? b : a))];
    if (state.pOld[common] === state.pOld[rare]) return "";
    const name = (k) => `${tpo.candidates.NAMES[k]} (p old ${number(state.pOld[k], 2)})`;
    return `At p old, TPO pushes the common failure ${name(common)} down ${number(first[common] / first[rare])} times ` +
      `as hard as the rare one ${name(rare)}; a policy gradient on scores pushes both alike.`;
  }

  return { mount, state, results };
})();
