// Epochs of gradient descent on one batch, played: the policy of each method beside the target, and its gradient.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.play = (() => {
  const { el, number, choice } = tpo.dom;
  const M = tpo.maths;
  const LAST = 64;
  const SPEEDS = { slow: 500, normal: 160, fast: 40 }; // milliseconds per epoch
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  // ---- the clock ------------------------------------------------------------------------------
  // go(epoch) shows an epoch. With reduced motion, playing shows the last epoch at once.
  function clock(state, go, changed) {
    let timer = null;
    let speed = "normal";
    const running = () => timer !== null;
    function pause() {
      clearTimeout(timer);
      timer = null;
      changed();
    }
    function tick() {
      go(state.epochs + 1);
      if (state.epochs >= LAST) pause();
      else timer = setTimeout(tick, SPEEDS[speed]);
    }
    function play() {
      if (still()) return go(LAST);
      if (state.epochs >= LAST) go(0);
      timer = setTimeout(tick, SPEEDS[speed]);
      changed();
    }
    return { running, pause, toggle: () => (running() ? pause() : play()), pace: (name) => { speed = name; } };
  }

  function mount(host, state, changed) {
    const go = (epoch) => { state.epochs = Math.min(Math.max(epoch, 0), LAST); changed(); };
    const button = (text, name, act) => el("button", { type: "button", "data-play": name, onclick: act }, text);
    const start = button("", "play", () => time.toggle());
    const say = () => { start.textContent = time.running() ? "❚❚ Pause" : still() ? "▶ To the last epoch" : "▶ Play"; };
    const time = clock(state, go, say);
    const halt = (act) => () => { time.pause(); act(); };
    const epoch = tpo.sliders.dial("epochs", 0, LAST, state.epochs, false, 1);
    epoch.input.dataset.dial = "epochs";
    epoch.input.addEventListener("input", halt(() => go(epoch.value())));
    const cards = el("div.races");
    host.append(el("div.player", {},
      el("div.switches", {}, start, button("Step", "step", halt(() => go(state.epochs + 1))),
        button("Reset", "reset", halt(() => go(0))),
        choice("Speed", Object.keys(SPEEDS).map((name) => [name, name]), "normal", time.pace)), epoch.node), cards);
    say();
    const update = (found) => {
      if (epoch.value() !== state.epochs) epoch.set(state.epochs);
      cards.replaceChildren(...races(state, found, widthOf(cards, Object.keys(found.runs).length)));
    };
    return { update, pause: () => { if (time.running()) time.pause(); } };
  }

  // ---- a card per method: p as bars, p_old as outlines, q as ticks -----------------------------
  function races(state, found, width) {
    const q = found.comparable ? found.q : null;
    const top = Math.min(2 * Math.max(...state.pOld, ...(state.start || []), ...(q || [])), 1);
    return Object.entries(found.runs).map(([name, run]) => race(name, run, q, { top, width }, state));
  }
  // Of the bars of one card, in pixels, so that its text keeps its size
  function widthOf(cards, n) {
    const all = cards.clientWidth || 700;
    const columns = all < 480 ? 2 : Math.min(n, Math.floor((all + 11) / 211));
    return Math.round(Math.min((all - 11 * (columns - 1)) / columns, 360) - 22);
  }
  function race(name, run, q, size, state) {
    const [p, gradient] = [run.p[state.epochs], run.norms[state.epochs]];
    const away = q && M.sum(p.map((x, k) => Math.abs(x - q[k]))) / 2;
    const [status, kind] = statusOf(gradient, away);
    const label = M.OBJECTIVES[name].label;
    const spoken = p.map((x, k) => `${tpo.candidates.NAMES[k]} ${number(x)}`).join(", ");
    return el("figure.race", { "data-race": name, "data-values": JSON.stringify(p) },
      el("figcaption", {}, el("span", { class: `swatch ${tpo.pictures.styleOf(name)}` }), el("b", {}, label),
        el(`span.badge.${kind}`, {}, status)),
      bars(p, state.pOld, q, size, `${label} after ${state.epochs} epochs: ${spoken}`),
      el("p", {}, `gradient ${number(gradient < 1e-12 ? 0 : gradient, 2)}`, q ? `, ${number(away < 1e-12 ? 0 : away, 2)} from q` : ""));
  }
  function statusOf(gradient, away) {
    if (away !== null && away < 0.01 && gradient < 0.05) return ["at q", "yes"];
    return gradient < 1e-6 ? ["no gradient", "open"] : ["moving", "open"];
  }
  // A bar that is higher than the picture ends in an arrow
  function bars(p, pOld, q, { top, width }, label) {
    const height = 92;
    const slot = width / p.length;
    const thick = Math.min(slot * 0.62, 34);
    const y = (v) => 10 + (1 - Math.min(v / top, 1)) * (height - 10);
    const svg = el("svg", { viewBox: `0 0 ${width} ${height + 32}`, role: "img", "aria-label": label });
    const text = (x, at, words, kind = "") => el(`text${kind}`, { x, y: at, "text-anchor": "middle" }, words);
    p.forEach((value, k) => {
      const middle = (k + 0.5) * slot;
      const box = (v, wider) => ({ x: middle - thick / 2 - wider, width: thick + 2 * wider, y: y(v), height: height - y(v) });
      svg.append(el("rect", { class: `value c${k}`, ...box(value, 0) }), el("rect", { class: "before", ...box(pOld[k], 2) }),
        text(middle, height + 14, tpo.candidates.NAMES[k], ".name"));
      if (value > top) svg.append(text(middle, 9, "▲"));
      if (slot > 25) svg.append(text(middle, height + 28, short(value)));
      if (q) svg.append(el("line.aim", { x1: middle - thick / 2 - 5, x2: middle + thick / 2 + 5, y1: y(q[k]), y2: y(q[k]) }));
    });
    svg.append(el("line.base", { x1: 0, x2: width, y1: height, y2: height }));
    return svg;
  }
  const short = (x) => (x < 0.005 ? "0" : x >= 0.995 ? "1" : x.toFixed(2).slice(1));

  return { mount, LAST };
})();
