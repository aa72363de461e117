// The playground's state in the address, so that it can be sent; whatever an address holds is checked.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.link = (() => {
  const MARK = "#playground:";
  const LISTS = { p: "pOld", s: "scores", n: "lengths" };
  const PRESET = "#preset=";
  const SCORES = ["", "sum", "mean", "ratio", "mean_ratio"];
  const OPTIONS = ["eta", "clip", "beta", "gateTemperature"];
  const LIMITS = { eta: [0.1, 10], clip: [0.05, 0.5], beta: [0.001, 1], gateTemperature: [0.1, 10],
    step: [0.01, 20], epochs: [0, 64] };

  function write(state) {
    const short = (x) => String(Number(x.toPrecision(8)));
    const parts = [["objective", state.name], ["score", state.options.score], ["at", state.at], ["beside", state.beside.join(",")]];
    for (const [key, field] of Object.entries(LISTS)) parts.push([key, state[field].map(short).join(",")]);
    if (state.start) parts.push(["c", state.start.map(short).join(",")]);
    for (const key of OPTIONS) parts.push([key, short(state.options[key])]);
    parts.push(["step", short(state.step)], ["epochs", short(state.epochs)]);
    return MARK + parts.map(([key, value]) => `${key}=${value}`).join(";");
  }

  // Changes the state to what the address says, and says whether it did
  function read(hash, state) {
    if (!hash.startsWith(MARK)) return false;
    const given = Object.fromEntries(hash.slice(MARK.length).split(";").map((part) => part.split("=")));
    const lists = Object.fromEntries(Object.entries(LISTS).map(([key, field]) => [field, numbers(given[key])]));
    if (!fits(lists)) return false;
    state.pOld = scaled(lists.pOld);
    state.scores = lists.scores;
    state.lengths = lists.lengths;
    const start = numbers(given.c);
    state.start = start.length === lists.pOld.length && start.every(positive) ? scaled(start) : null;
    if (Object.hasOwn(tpo.maths.OBJECTIVES, given.objective)) state.name = given.objective;
    if (["old", "now"].includes(given.at)) state.at = given.at;
    const beside = (given.beside || "").split(",").filter((name) => Object.hasOwn(tpo.maths.OBJECTIVES, name)).slice(0, 4);
    if (beside.length) state.beside = beside;
    if (SCORES.includes(given.score)) state.options.score = given.score;
    for (const [key, [low, high]] of Object.entries(LIMITS)) {
      const value = Number(given[key]);
      const holder = OPTIONS.includes(key) ? state.options : state;
      if (given[key] && Number.isFinite(value)) holder[key] = Math.min(Math.max(value, low), high);
    }
    state.epochs = Math.round(state.epochs);
    return true;
  }
  // The name in `#preset=name`, or null
  const preset = (hash) => (hash.startsWith(PRESET) ? hash.slice(PRESET.length) : null);
  const positive = (p) => p > 0 && p <= 1;
  const scaled = (list) => list.map((p) => p / list.reduce((a, b) => a + b, 0));
  const numbers = (text) => (text || "").split(",").map(Number);
  function fits({ pOld, scores, lengths }) {
    const K = pOld.length;
    return K >= 2 && K <= 8 && scores.length === K && lengths.length === K && scores.every(Number.isFinite) &&
      pOld.every(positive) && lengths.every((n) => Number.isInteger(n) && n >= 1 && n <= 99);
  }

  return { write, read, preset, PRESET };
})();
