// One panel of lines: a centre line with its band, single seeds on demand, a readout under mouse and keys.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.chart = (() => {
  const { el, number, onWidth, fresh } = tpo.dom;
  const { scale, tickText, usable } = tpo.scales;
  const MARGIN = { top: 28, right: 12, bottom: 40, left: 46 };
  const NEAR = 14; // pixels within which a click meets a line

  // view: { log (null: as data.y says), xLog, centre: "mean" | "median", seeds: bool, hidden: Set of keys,
  //         focus?: Set of keys in colour, pick?: (key) => act, height?, fill?: use the host's height }
  function panel(host, given, view) {
    let data = given;
    const state = { at: null, plot: null };
    const readout = el("div.readout", { hidden: true });
    const spoken = el("div.visually-hidden", { "aria-live": "polite" });
    const svg = el("svg.plot", {
      tabindex: 0, role: "img", "aria-label": describe(data), "aria-describedby": hint().id,
    });
    host.append(svg, readout, spoken);
    const show = (index) => point(state, index, { svg, readout, host });
    const redraw = (width = Math.floor(host.clientWidth)) => {
      if (width < 40) return;
      state.plot = draw(svg, data, view, { width, height: heightOf(host, view, width) });
      if (state.at !== null) show(state.at);
    };
    onWidth(host, redraw);
    svg.addEventListener("pointermove", (event) => show(nearest(state.plot, event, svg)));
    svg.addEventListener("pointerdown", (event) => show(nearest(state.plot, event, svg)));
    svg.addEventListener("pointerleave", () => show(null));
    svg.addEventListener("click", (event) => {
      const key = view.pick && state.plot && lineAt(state.plot, event, svg);
      if (key) view.pick(key);
    });
    svg.addEventListener("blur", () => show(null));
    svg.addEventListener("keydown", (event) => {
      const next = moved(event.key, state);
      if (next === undefined) return;
      event.preventDefault();
      show(next);
      spoken.textContent = next === null ? "" : readout.textContent;
    });
    const set = (next) => {
      data = next;
      svg.setAttribute("aria-label", describe(data));
      redraw();
    };
    return { redraw, set };
  }

  function heightOf(host, view, width) {
    if (view.fill) return Math.max(220, Math.floor(host.clientHeight));
    return Math.round(Math.min(view.height || 320, Math.max(200, width * 0.62)));
  }

  // One hint for all panels, for those who hear the page
  function hint() {
    const there = document.getElementById("plot-hint");
    if (there) return there;
    const text = "Arrow keys read the values, Home and End jump, Escape leaves.";
    const node = el("p.visually-hidden", { id: "plot-hint" }, text);
    document.querySelector("main").append(node);
    return node;
  }
  function describe(data) {
    const values = data.kind === "profile" ? [] : data.series.map((s) => `${s.label} is ${number(last(s.mean || []))} at last`);
    return `${data.title || "Figure"}: ${data.y.label} by ${data.x.label}. ${values.join(", ")}`;
  }
  const last = (x) => x.filter(usable).at(-1);

  // Escape is ours only while a value is read out; else it closes an enlarged panel
  function moved(key, state) {
    const n = state.plot ? state.plot.stops.length : 0;
    if (!n || (key === "Escape" && state.at === null)) return undefined;
    const at = state.at === null ? -1 : state.at;
    const leap = Math.max(1, Math.round(n / 20));
    const next = { ArrowRight: at + 1, ArrowLeft: at < 0 ? n - 1 : at - 1, PageUp: at + leap,
      PageDown: at - leap, Home: 0, End: n - 1, Escape: null }[key];
    return typeof next === "number" ? Math.min(Math.max(next, 0), n - 1) : next;
  }
  function nearest(plot, event, svg) {
    if (!plot || !plot.stops.length) return null;
    const x = event.clientX - svg.getBoundingClientRect().left;
    let best = 0;
    plot.stops.forEach((stop, i) => {
      if (Math.abs(plot.x.at(stop) - x) < Math.abs(plot.x.at(plot.stops[best]) - x)) best = i;
    });
    return best;
  }
  function lineAt(plot, event, svg) {
    const stop = plot.stops[nearest(plot, event, svg)];
    const y = event.clientY - svg.getBoundingClientRect().top;
    const [first] = plot.visible.map((s) => ({ key: s.key, value: valueAt(s, stop, plot) }))
      .filter(({ value }) => usable(value)).map(({ key, value }) => ({ key, far: Math.abs(plot.y.at(value) - y) }))
      .sort((a, b) => a.far - b.far);
    return first && first.far <= NEAR ? first.key : null;
  }

  const centreOf = (series, view) => series[view.centre] || series.mean || series.median;
  // At a stop of another line a step keeps its height; a curve has no value there
  function valueAt(series, stop, { view, stepped }) {
    const i = stepped ? series.x.findLastIndex((x) => x <= stop) : series.x.indexOf(stop);
    return i < 0 ? (stepped ? 0 : undefined) : centreOf(series, view)[i];
  }

  function draw(svg, data, given, { width, height }) {
    const view = { centre: given.centre, seeds: given.seeds,
      log: Boolean(given.log === null ? data.y.log : given.log), xLog: given.xLog || data.x.log };
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    const visible = data.series.filter((s) => !given.hidden.has(s.key));
    const lit = tpo.legend.lit(visible, given.focus);
    const bright = visible.filter((s) => lit.has(s.key));
    const stepped = data.kind === "profile";
    const free = stepped ? 0 : tpo.labels.margin(bright, width);
    const box = { left: MARGIN.left, right: width - (free || MARGIN.right), top: MARGIN.top, bottom: height - MARGIN.bottom, height };
    const { x, y } = axes(data, visible, view, box);
    frame(svg, x, y, data, box);
    for (const series of [...visible.filter((s) => !lit.has(s.key)), ...bright]) {
      svg.append(drawn(series, { x, y, view, box, stepped, dim: !lit.has(series.key) }));
    }
    svg.append(...names(bright, { x, y, view, box, stepped, width, free }));
    const cursor = el("g.cursor");
    svg.append(cursor);
    const stops = [...new Set(bright.flatMap((s) => s.x))].sort((a, b) => a - b);
    return { x, y, stops, visible, bright, view, cursor, box, stepped };
  }
  function names(series, { x, y, view, box, stepped, width, free }) {
    const { atEnds, besideRises, MOST, WIDE } = tpo.labels;
    if (stepped) return width < WIDE || series.length > MOST ? [] : [besideRises(series, x, y, box)];
    const ends = series.map((s) => ({ ...s, value: last(centreOf(s, view)) }));
    return free ? [atEnds(ends, y, box, width)] : [];
  }
  function drawn(series, { x, y, view, box, stepped, dim }) {
    const g = el("g", { class: `series ${series.style}${dim ? " dim" : ""}` });
    if (view.seeds && !dim) for (const seed of series.seeds || []) g.append(line(series.x, seed, x, y, "seed"));
    else if (view.centre !== "median") band(g, series, x, y);
    g.append(stepped ? steps(series, x, y, box) : line(series.x, centreOf(series, view), x, y, "centre"));
    return g;
  }

  function axes(data, visible, view, box) {
    const values = visible.flatMap((s) => [
      ...(centreOf(s, view) || []),
      ...(view.seeds ? (s.seeds || []).flat() : []),
      ...(view.centre !== "median" && !view.seeds && s.se
        ? s.mean.flatMap((m, i) => (usable(m) && usable(s.se[i]) ? [m - s.se[i], m + s.se[i]] : [])) : []),
    ]).filter((v) => usable(v) && !(view.log && v <= 0));
    const floor = view.log ? floorOf(visible, view) : 0;
    return {
      x: scale(visible.flatMap((s) => s.x), {
        log: view.xLog, from: box.left, to: box.right, count: (box.right - box.left) / 80, floor: 1e-5 }),
      y: scale(values, { log: view.log, from: box.bottom, to: box.top, floor,
        include: view.log || !data.zero ? [] : [0], count: box.height / 55 }),
    };
  }
  // Bands reach below 0 and seeds reach 0: a log axis follows the centre lines, to half a decade below
  function floorOf(visible, view) {
    const centre = visible.flatMap((s) => centreOf(s, view) || []).filter((v) => usable(v) && v > 0);
    return centre.length ? Math.max(Math.min(...centre) / 3, 1e-9) : 1e-6;
  }

  function frame(svg, x, y, data, box) {
    const grid = el("g.grid");
    for (const t of y.ticks) {
      grid.append(
        el("line", { x1: box.left, x2: box.right, y1: y.at(t), y2: y.at(t) }),
        el("text", { x: box.left - 8, y: y.at(t) + 4, "text-anchor": "end" }, tickText(t)));
    }
    for (const t of x.ticks) {
      grid.append(
        el("line.tick", { x1: x.at(t), x2: x.at(t), y1: box.bottom, y2: box.bottom + 4 }),
        el("text", { x: x.at(t), y: box.bottom + 17, "text-anchor": "middle" }, tickText(t)));
    }
    grid.append(
      el("line.base", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
      el("text.label", { x: (box.left + box.right) / 2, y: box.height - 5, "text-anchor": "middle" }, data.x.label),
      el("text.label", { x: 4, y: 13 }, data.y.label === data.title ? "" : data.y.label));
    svg.append(grid);
  }

  function line(xs, ys, x, y, kind) {
    let path = "";
    let pen = false;
    xs.forEach((value, i) => {
      if (!usable(ys[i])) return void (pen = false);
      path += `${pen ? "L" : "M"}${x.at(value).toFixed(1)} ${y.at(ys[i]).toFixed(1)}`;
      pen = true;
    });
    return el(`path.${kind}`, { d: path });
  }
  // A share that rises at each of its x, from 0 at the left to its last value at the right
  function steps(series, x, y, box) {
    const rises = series.x.map((at, i) => `H${x.at(at).toFixed(1)}V${y.at(series.mean[i]).toFixed(1)}`);
    return el("path.centre", { d: `M${box.left} ${y.at(0).toFixed(1)}${rises.join("")}H${box.right}` });
  }
  function band(g, series, x, y) {
    if (!series.se) return;
    const ok = series.x.map((_, i) => i).filter((i) => usable(series.mean[i]) && usable(series.se[i]));
    if (ok.length < 2) return;
    const side = (sign) => ok.map((i) =>
      `${x.at(series.x[i]).toFixed(1)},${y.at(series.mean[i] + sign * series.se[i]).toFixed(1)}`);
    g.append(el("polygon.band", { points: [...side(1), ...side(-1).reverse()].join(" ") }));
  }

  // The cursor and the readout at one x
  function point(state, index, { svg, readout, host }) {
    const plot = state.plot;
    state.at = index;
    if (!plot) return;
    plot.cursor.replaceChildren();
    readout.hidden = index === null || !plot.stops.length;
    if (readout.hidden) return;
    const stop = plot.stops[Math.min(index, plot.stops.length - 1)];
    const px = plot.x.at(stop);
    plot.cursor.append(el("line", { x1: px, x2: px, y1: plot.box.top, y2: plot.box.bottom }));
    const rows = plot.bright.map((s) => ({ s, value: valueAt(s, stop, plot), se: s.se && s.se[s.x.indexOf(stop)] }))
      .filter(({ value }) => usable(value)).sort((a, b) => b.value - a.value);
    for (const { s, value } of rows) {
      plot.cursor.append(el("circle", { class: s.style, cx: px, cy: plot.y.at(value), r: 3.5 }));
    }
    fillReadout(readout, stop, rows, plot.view);
    const left = px > host.clientWidth / 2 ? px - readout.offsetWidth - 12 : px + 12;
    readout.style.left = `${Math.max(0, Math.min(left, host.clientWidth - readout.offsetWidth))}px`;
    // Below, so that it hides no line, where there is a page below
    const below = host.closest("dialog") ? MARGIN.top : plot.box.height + 2;
    readout.style.top = `${below}px`;
  }
  function fillReadout(readout, stop, rows, view) {
    const spread = view.centre === "median" ? () => "" : (se) => (usable(se) ? ` ± ${number(se, 2)}` : "");
    readout.replaceChildren(
      el("strong", {}, number(stop, 6)),
      ...rows.map(({ s, value, se }) =>
        el("div", {}, el("span", { class: `swatch ${s.style}` }), s.label, s.n ? ` (n = ${s.n}) ` : " ",
          el("b", {}, `${number(value)}${spread(se)}`))));
  }

  return { panel, fresh };
})();
