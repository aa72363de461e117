// The playground: its state, what follows from it, and where each part of it is on the page.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.playground = (() => {
  const { el, number, choice, toggle } = tpo.dom;
  const { MAIN } = tpo.pictures;
  const M = tpo.maths;
  const ones = (n) => Array.from({ length: n }, () => 1);
  const BESIDE = ["tpo", "grpo", "group_pg"];
  // Which figure comes first, by the topic of the preset
  const ORDER = { "The target": ["target", "epochs", "pushes", "factors"],
    "Epochs on one batch": ["epochs", "target", "pushes", "factors"],
    "Beside other methods": ["factors", "pushes", "epochs", "target"] };

  // start: the policy before the first epoch, null where it is p_old. beside: the methods that are played together.
  const state = {
    pOld: [], scores: [], lengths: [], start: null, name: "tpo", options: { ...M.DEFAULTS }, step: 1, epochs: 0,
    oneScale: false, all: false, at: "old", beside: BESIDE, picked: 0, preset: null,
  };
  function load(preset) {
    const { pOld, scores, options = {}, objective = "tpo", step = 1, epochs = 0, at = "old", beside = BESIDE } = preset;
    Object.assign(state, { pOld: [...pOld], scores: [...scores], name: objective, step, epochs, at, beside,
      options: { ...M.DEFAULTS, ...options }, preset: preset.name, lengths: [...(preset.lengths || ones(pOld.length))],
      start: preset.start ? [...preset.start] : null, picked: scores.indexOf(Math.max(...scores)) });
  }
  function resize(K) {
    const grown = Array.from({ length: K }, (_, k) => (k < state.pOld.length ? state.pOld[k] : 1 / K));
    const total = M.sum(grown);
    state.pOld = grown.map((p) => p / total);
    state.scores = Array.from({ length: K }, (_, k) => state.scores[k] ?? 0);
    state.lengths = Array.from({ length: K }, (_, k) => state.lengths[k] ?? 1);
    state.start = null;
  }

  // Everything the page shows, from the state
  function results() {
    const group = M.groupOf(state.pOld, state.scores, state.lengths);
    const names = [...new Set([...state.beside, state.name])];
    const runs = Object.fromEntries(names.map((name) =>
      [name, M.descent(name, group, state.options, state.step, tpo.play.LAST, state.start)]));
    const path = runs[state.name];
    const p = path.p[state.epochs];
    const target = M.OBJECTIVES[state.name].family === "target" ? state.name : "tpo";
    const here = (state.at === "old" ? state.pOld : p).map(Math.log);
    const shown = state.all ? Object.keys(M.OBJECTIVES) : [...new Set([...MAIN, state.name])];
    return {
      path, p, runs, target, parts: M.targetParts(target, group, state.options),
      ...M.fitted(target, group, state.options, p.map(Math.log)),
      here: M.fitted(target, group, state.options, here).P,
      policy: target === state.name ? null : M.policyParts(state.name, group, state.options, here),
      comparable: (state.options.score || M.OBJECTIVES[target].score) === "sum",
      pushes: Object.fromEntries(shown.map((name) => [name, M.push(name, group, state.options, here)])),
      first: M.push("tpo", group, state.options, state.pOld.map(Math.log)),
    };
  }

  function mount(host, presets) {
    const known = Object.fromEntries(presets.map((preset) => [preset.name, preset]));
    // What the address asks for: a preset, or all settings
    function follow(hash) {
      const name = tpo.link.preset(hash);
      if (Object.hasOwn(known, name)) load(known[name]);
      else if (tpo.link.read(hash, state)) state.preset = null;
      else return false;
      state.picked = Math.min(state.picked, state.pOld.length - 1);
      return true;
    }
    load(presets[0]);
    if (follow(location.hash)) host.scrollIntoView();
    const change = () => update();
    const guide = tpo.guide.mount(host, presets, (preset) => { load(preset); parts.pause(); update(); });
    const left = el("div.controls");
    const right = el("div.results");
    host.append(el("div.workspace", {}, left, right));
    const controls = tpo.controls.mount(left, state, { change, resize });
    const parts = figures(right, change);
    const talk = host.appendChild(el("div.talk"));
    tpo.pictures.clipBound(talk.appendChild(el("section")));
    tpo.pictures.share(talk.appendChild(el("section")));
    addEventListener("hashchange", () => { if (follow(location.hash)) { parts.pause(); update(); } });

    function update() {
      state.picked = Math.min(state.picked, state.pOld.length - 1);
      const found = results();
      guide(state);
      controls(found);
      if (Object.hasOwn(known, state.preset)) parts.order(known[state.preset].topic);
      parts.update(found);
    }
    update();
  }

  // The right side: triangle, target, epochs, pushes, code
  function figures(host, change) {
    // The buttons are new after each update: give the keyboard focus back
    const refocus = (selector) => document.querySelector(selector).focus();
    const pick = (k) => { state.picked = k; change(); refocus(`.target [data-pick="${k}"]`); };
    // First, so that no text of changing length above it moves it while it is dragged
    const triangle = tpo.pictures.triangle(host, state, change);
    const stack = host.appendChild(el("div.stack"));
    const place = (title, ...children) => stack.appendChild(el("section", {}, title && el("h3", {}, title), ...children));
    const first = place(null);
    const target = tpo.formula.target(first, pick);
    const epochs = place("Epochs on this batch", el("p", {}, "Gradient descent on the logits of one softmax. " +
      "Bars are p, outlines p old, ticks q. The distance from q is half of Σ|p − q|."));
    const play = tpo.play.mount(epochs, state, change);
    const charts = tpo.pictures.epochs(epochs);
    const scales = el("div.switches", {},
      choice("Policy at which the push is taken", [["old", "at p old"], ["now", "at p now"]], "old", (v) => { state.at = v; change(); }),
      toggle("one scale for all", false, (on) => { state.oneScale = on; change(); }),
      toggle("all objectives", false, (on) => { state.all = on; change(); }));
    const words = el("p.live", { "aria-live": "polite" });
    const box = place("Push of every objective", el("p", {}, "−∂L/∂ log p of each candidate: up is more probable, down less. " +
      "Select an objective to train with it."), scales);
    const pushes = tpo.pictures.pushes(box, (name) => { state.name = name; change(); refocus(`[data-push="${name}"]`); });
    box.append(words);
    const factors = place(null);
    const details = tpo.formula.push(factors, (k) => { state.picked = k; change(); });
    const code = el("code");
    host.append(el("details", {}, el("summary", {}, "The same in Python"), el("pre.snippet", {}, code)),
      el("a.small", { id: "link", href: "#playground", onclick: share }, "Link to these settings (puts them into the address)"));
    const sections = { target: first, epochs, pushes: box, factors };
    let shown = null;
    function order(topic) {
      if (topic !== shown) stack.append(...ORDER[(shown = topic)].map((name) => sections[name]));
    }
    function update(found) {
      triangle(found.path.p.slice(0, state.epochs + 1), found.comparable ? found.q : null, state.name);
      target(state, found);
      play.update(found);
      charts(state, found);
      for (const b of scales.firstChild.children) b.setAttribute("aria-pressed", String(b.dataset.value === state.at));
      pushes(state, found.pushes);
      details(state, found);
      words.textContent = sentence(found);
      code.textContent = tpo.snippet.text(state, found.p);
    }
    return { update, order, pause: play.pause };
  }
  function share(event) {
    event.preventDefault();
    location.hash = tpo.link.write(state);
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
