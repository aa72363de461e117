// The figures of the playground: each objective's push, p and the gradient over epochs, the simplex, the talk's diagnostics.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.pictures = (() => {
  const { el, number, changes } = tpo.dom;
  const { bars, simplex, mount: picture } = tpo.shapes;
  const { dial: slider } = tpo.sliders;
  const M = tpo.maths;
  const STYLES = {
    tpo: "m0", grpo: "m1", ppo: "m2", dg: "m3", grpo_no_kl: "m4", tpo_no_anchor: "m5", lpo: "m6",
    group_pg: "m7", lpo_reverse: "m6 d1", reinforce: "m7 d1",
  };
  const MAIN = ["tpo", "tpo_no_anchor", "lpo", "lpo_reverse", "group_pg", "grpo", "ppo", "dg", "reinforce"];
  const styleOf = (name) => STYLES[name] || "m6 d2";
  const range = (n) => Array.from({ length: n }, (_, i) => i);
  const calm = { log: false, centre: "mean", seeds: false, hidden: new Set(), height: 260 };

  // ---- the push of every objective: one button each, to select it -----------------------------
  function pushes(host, choose) {
    const grid = el("div.pushes", { role: "group", "aria-label": "Push of each objective" });
    host.append(grid);
    const changed = changes();
    return (state, values) => {
      if (!changed(values, state.oneScale, state.name)) return;
      const common = Math.max(...Object.values(values).flat().map(Math.abs), 1e-12);
      grid.replaceChildren(...Object.entries(values).map(([name, push]) => {
        const own = Math.max(...push.map(Math.abs), 1e-12);
        return pushButton(name, push, state.oneScale ? common : own, name === state.name, choose);
      }));
    };
  }
  function pushButton(name, push, top, chosen, choose) {
    const [width, half] = [132, 34];
    const slot = width / push.length;
    const svg = el("svg", { viewBox: `0 0 ${width} ${2 * half + 16}`, "aria-hidden": "true" },
      el("line.base", { x1: 0, x2: width, y1: half + 1, y2: half + 1 }),
      push.map((v, k) => {
        const size = (Math.abs(v) / top) * half;
        return el("rect", { class: `value c${k}`, x: k * slot + slot * 0.15, width: slot * 0.7,
          y: v >= 0 ? half + 1 - size : half + 1, height: Math.max(size, 0.5) });
      }),
      push.map((_, k) => el("text", { x: (k + 0.5) * slot, y: 2 * half + 14, "text-anchor": "middle" }, tpo.candidates.NAMES[k])));
    const label = M.OBJECTIVES[name].label;
    const spoken = push.map((v, k) => `${tpo.candidates.NAMES[k]} ${number(v)}`).join(", ");
    const button = el("button.push", { type: "button", "aria-pressed": String(chosen), "data-push": name,
      "aria-label": `${label}: ${spoken}`, "data-values": JSON.stringify(push), title: spoken },
    el("span", {}, label), svg);
    button.addEventListener("click", () => choose(name));
    return button;
  }

  // ---- over the epochs: what has been played is strong, what is to come is faint ----------------
  function epochs(host) {
    const [left, right] = [el("div.canvas"), el("div.canvas")];
    const title = el("h3");
    host.append(el("div.panels", {}, card(title, left), card("Norm of the gradient on the logits", right)));
    const empty = { title: "", x: { label: "epoch" }, y: { label: "p" }, zero: true, series: [] };
    const p = tpo.chart.panel(left, empty, calm);
    const norms = tpo.chart.panel(right, empty, { ...calm, log: true });
    let keys = [];
    return (state, { path, runs }) => {
      const names = path.p[0].map((_, k) => [`c${k}`, tpo.candidates.NAMES[k]]);
      const methods = Object.keys(runs).map((name) => [styleOf(name), M.OBJECTIVES[name].label]);
      for (const old of keys) old.remove();
      keys = [key(names), key(methods)];
      left.after(keys[0]);
      right.after(keys[1]);
      title.textContent = `p under ${M.OBJECTIVES[state.name].label}`;
      const drawn = (entries, values) => entries.flatMap(([style, label], i) => played(style, label, values(i), state.epochs));
      p.set({ ...empty, title: title.textContent, series: drawn(names, (k) => path.p.map((row) => row[k])) });
      norms.set({ ...empty, title: "Norm of the gradient", y: { label: "norm" },
        series: drawn(methods, (i) => Object.values(runs)[i].norms) });
    };
  }
  function played(style, label, values, epoch) {
    const x = range(values.length);
    const part = (kept) => values.map((v, i) => (kept(i) ? v : null));
    return [{ key: `${label} to come`, label: `${label}, to come`, style: `${style} future`, x, mean: part((i) => i >= epoch) },
      { key: label, label, style, x, mean: part((i) => i <= epoch) }];
  }
  const key = (entries) => el("p.key", {}, entries.map(([style, text]) =>
    el("span", {}, el("span", { class: `swatch ${style}` }), text)));
  const card = (title, body) => el("section.panel", {}, el("header", {}, el("h3", {}, title)), body);

  // ---- the simplex, with p_old to drag --------------------------------------------------------
  function triangle(host, state, changed) {
    const body = el("div.canvas");
    const box = card("The simplex: drag p old, or use the arrow keys", body);
    host.append(box);
    let geometry = null;
    let shown = null;
    const paint = (svg, width) => { if (shown) geometry = simplex(svg, shown, width); };
    const { redraw, svg } = picture(body, paint);
    svg.setAttribute("tabindex", 0);
    svg.classList.add("draggable");
    const move = (p) => { state.pOld = p; changed(); };
    const drag = (event) => {
      const at = svg.getBoundingClientRect();
      move(geometry.from(event.clientX - at.left, event.clientY - at.top));
    };
    svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); drag(event); });
    svg.addEventListener("pointermove", (event) => { if (event.buttons) drag(event); });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [0, -6], ArrowDown: [0, 6], ArrowLeft: [-6, 0], ArrowRight: [6, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      const [x, y] = geometry.at(state.pOld);
      move(geometry.from(x + step[0], y + step[1]));
    });
    return (path, q, name) => {
      box.hidden = state.pOld.length !== 3;
      if (box.hidden) return;
      shown = {
        title: "Simplex", names: ["A", "B", "C"], paths: [{ style: styleOf(name), points: path }],
        marks: [{ style: "old", point: state.pOld, name: "p old" }, ...(q ? [{ style: "goal", point: q, name: "q" }] : []),
          { style: styleOf(name), point: path.at(-1), name: "p" }],
      };
      redraw();
    };
  }

  // ---- the talk: clip bound and gradient share ------------------------------------------------
  const SIZES = [4, 8, 16];
  function clipBound(host) {
    const body = el("div.canvas");
    const words = el("p.live", { "aria-live": "polite" });
    const inputs = { p: slider("p of the success", 0.001, 0.9, 0.01, true), clip: slider("clip", 0.05, 0.5, 0.2) };
    host.append(el("h3", {}, "The clip bound"), el("p", {},
      "One of K candidates succeeds, and has probability p. Under a clip the push on it ends at (1 + clip)·p. " +
      "TPO's target depends on neither the clip bound nor a step size."),
    el("div.dials", {}, inputs.p.node, inputs.clip.node), words, el("div.panels", {}, card("Clip bound and TPO target", body)),
    key([["m1", "clipped"], ...SIZES.map((k, i) => [`m0 d${i}`, `TPO, K = ${k}`])]));
    const data = { title: "Clip bound", x: { label: "p of the success", log: true }, y: { label: "bound or target" }, zero: true, series: [] };
    const panel = tpo.chart.panel(body, data, calm);
    const update = () => {
      const [p, width] = [inputs.p.value(), inputs.clip.value()];
      const xs = range(61).map((i) => 10 ** (-3 + (i / 60) * Math.log10(0.95 / 0.001)));
      const bounds = xs.map((x) => M.clipBound(x, width, SIZES));
      const line = (label, style, mean) => ({ key: label, label, style, x: xs, mean });
      panel.set({ ...data, series: [line("clipped", "m1", bounds.map((b) => b.clipped)),
        ...SIZES.map((k, i) => line(`TPO, K = ${k}`, `m0 d${i}`, bounds.map((b) => b.target[i])))] });
      const here = M.clipBound(p, width, SIZES);
      words.dataset.values = JSON.stringify([p, width, here.clipped, ...here.target]);
      words.textContent = `From p = ${number(p)}: under a clip the push ends at ${number(here.clipped)}; TPO's target ` +
        SIZES.map((k, i) => `${number(here.target[i])} (K = ${k})`).join(", ") + ".";
    };
    for (const input of Object.values(inputs)) input.node.addEventListener("input", update);
    update();
  }
  const SHARE_NAMES = { ce: "cross-entropy", pg: "PG", dg: "DG", grpo: "GRPO", tpo: "TPO" };
  function share(host) {
    const inputs = { easy: slider("p on the easy prompt", 0.5, 0.99, 0.95), hard: slider("p on the hard prompt", 0.01, 0.5, 0.05),
      arms: slider("actions", 2, 40, 10, false, 1) };
    const body = el("div.canvas");
    let shown = [];
    host.append(el("h3", {}, "Which prompt gets the gradient: an easy or a hard one"), el("p", {},
      "Each prompt has one right action. How many times larger the exact population update of the easy prompt is than " +
      "that of the hard one: as the ratio of coefficients, and of gradient norms."),
    el("div.dials", {}, Object.values(inputs).map((i) => i.node)), el("div.panels", {}, card("Easy prompt relative to hard prompt", body)));
    const view = picture(body, (svg, width) => bars(svg, { title: "Easy prompt relative to hard prompt", series: shown }, width));
    const update = () => {
      const rows = M.gradientShare(inputs.easy.value(), inputs.hard.value(), inputs.arms.value());
      const x = rows.map((r) => SHARE_NAMES[r.method]);
      body.dataset.values = JSON.stringify(rows);
      shown = [{ key: 1, label: "coefficient", style: "m0", x, y: rows.map((r) => r.coefficient) },
        { key: 2, label: "gradient norm", style: "m1", x, y: rows.map((r) => r.gradient) }];
      view.redraw();
    };
    host.append(key([["m0", "ratio of coefficients"], ["m1", "ratio of gradient norms"]]));
    for (const input of Object.values(inputs)) input.node.addEventListener("input", update);
    update();
  }

  return { pushes, epochs, triangle, clipBound, share, styleOf, MAIN };
})();
