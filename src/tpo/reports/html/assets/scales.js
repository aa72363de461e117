// Axes: where a value lies, which values get a tick, and how a tick is written.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.scales = (() => {
  const usable = (x) => x !== null && x !== undefined && Number.isFinite(x);

  function niceStep(span, count) {
    const raw = span / Math.max(count, 1);
    const power = 10 ** Math.floor(Math.log10(raw));
    return power * ([1, 2, 5].find((m) => m * power >= raw * 0.999) || 10);
  }
  function linearTicks(low, high, count) {
    const step = niceStep(high - low, count);
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
    return ticks;
  }
  function logTicks(low, high) {
    const ticks = [];
    for (let e = Math.ceil(low - 1e-9); e <= high + 1e-9; e++) ticks.push(10 ** e);
    if (ticks.length >= 3) return ticks.length > 7 ? ticks.filter((_, i) => i % 2 === 0) : ticks;
    const finer = [1, 2, 5].flatMap((m) => [-1, 0, 1, 2].map((e) => m * 10 ** (Math.floor(low) + e)))
      .filter((x) => Math.log10(x) >= low - 1e-9 && Math.log10(x) <= high + 1e-9)
      .sort((a, b) => a - b);
    return finer.length >= 2 ? finer : linearTicks(10 ** low, 10 ** high, 4);
  }

  // A map from values to pixels; on a log scale what is 0 or below lies on the floor
  function scale(values, { log = false, from, to, include = [], count = 5, floor = 1e-6 }) {
    const all = values.concat(include).filter(usable);
    if (log) return logScale(all.filter((x) => x > 0), from, to, floor);
    let low = all.length ? Math.min(...all) : 0;
    let high = all.length ? Math.max(...all) : 1;
    if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
    const at = (x) => from + ((x - low) / (high - low)) * (to - from);
    return { at, low, high, ticks: linearTicks(low, high, count), log: false };
  }
  function logScale(positive, from, to, floor) {
    const top = positive.length ? Math.max(...positive) : 1;
    let low = Math.log10(Math.min(Math.max(positive.length ? Math.min(...positive) : 0.1, floor), top));
    let high = Math.log10(top);
    if (high - low < 0.02) [low, high] = [low - 0.05, high + 0.05];
    const at = (x) => {
      const place = x > 0 ? Math.max(Math.log10(x), low) : low;
      return from + ((place - low) / (high - low)) * (to - from);
    };
    return { at, low: 10 ** low, high: 10 ** high, ticks: logTicks(low, high), log: true };
  }

  const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  function tickText(x) {
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1000 && size < 1e6 && x % 100 === 0) return `${+(x / 1000).toFixed(1)}k`;
    if (size >= 1e6 || size < 1e-3) {
      const power = Math.floor(Math.log10(size) + 1e-9);
      const lead = +(x / 10 ** power).toFixed(2);
      const sup = String(power).replace(/./g, (c) => SUPERSCRIPT[c]);
      return lead === 1 ? `10${sup}` : `${lead}·10${sup}`;
    }
    return String(+x.toPrecision(6));
  }

  return { scale, tickText, usable };
})();
