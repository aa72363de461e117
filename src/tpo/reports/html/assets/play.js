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
      if (state.epochs >= LAST) return pause();
      timer = setTimeout(tick, SPEEDS[speed]);
      go(state.epochs + 1);
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
      cards.replaceChildren(...races(state, found));
    };
    return { update, pause: () => { if (time.running()) time.pause(); } };
  }

  // ---- a card per method: p as bars, p_old as outlines, q as ticks -----------------------------
  function races(state, found) {
    const q = found.comparable ? found.q : null;
    const top = Math.max(...state.pOld, ...(q || [0]), ...Object.values(found.runs).flatMap((run) => run.p.flat()));
    return Object.entries(found.runs).map(([name, run]) => race(name, run, q, top, state));
  }
  function race(name, run, q, top, state) {
    const [p, gradient] = [run.p[state.epochs], run.norms[state.epochs]];
    const away = q && M.sum(p.map((x, k) => Math.abs(x - q[k]))) / 2;
    const [status, kind] = statusOf(gradient, away);
    const label = M.OBJECTIVES[name].label;
    const spoken = p.map((x, k) => `${tpo.candidates.NAMES[k]} ${number(x)}`).join(", ");
    return el("figure.race", { "data-race": name, "data-values": JSON.stringify(p) },
      el("figcaption", {}, el("span", { class: `swatch ${tpo.pictures.styleOf(name)}` }), el("b", {}, label),
        el(`span.badge.${kind}`, {}, status)),
      bars(p, state.pOld, q, top, `${label} after ${state.epochs} epochs: ${spoken}`),
      el("p", {}, `gradient ${number(gradient, 2)}`, q ? `, ${number(away, 2)} from q` : ""));
  }
  function statusOf(gradient, away) {
    if (away !== null && away < 0.01 && gradient < 0.05) return ["at q", "yes"];
    return gradient < 1e-6 ? ["no gradient", "open"] : ["moving", "open"];
  }
  function bars(p, pOld, q, top, label) {
    const [width, height] = [260, 92];
    const slot = width / p.length;
    const thick = Math.min(slot * 0.62, 34);
    const y = (v) => 4 + (1 - v / top) * (height - 4);
    const svg = el("svg", { viewBox: `0 0 ${width} ${height + 32}`, role: "img", "aria-label": label });
    p.forEach((value, k) => {
      const middle = (k + 0.5) * slot;
      svg.append(
        el("rect", { class: `value c${k}`, x: middle - thick / 2, width: thick, y: y(value), height: height - y(value) }),
        el("rect", { class: "before", x: middle - thick / 2 - 2, width: thick + 4, y: y(pOld[k]), height: height - y(pOld[k]) }),
        el("text.name", { x: middle, y: height + 14, "text-anchor": "middle" }, tpo.candidates.NAMES[k]),
        el("text", { x: middle, y: height + 28, "text-anchor": "middle" }, short(value)));
      if (q) svg.append(el("line.aim", { x1: middle - thick / 2 - 5, x2: middle + thick / 2 + 5, y1: y(q[k]), y2: y(q[k]) }));
    });
    svg.append(el("line.base", { x1: 0, x2: width, y1: height, y2: height }));
    return svg;
  }
  const short = (x) => (x < 0.001 ? "<.001" : x.toFixed(x < 0.01 ? 3 : 2).replace(/^0/, ""));

  return { mount, LAST };
})();
