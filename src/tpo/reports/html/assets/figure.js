// The figure of a study: its main panels, one legend and one set of switches; the other panels on demand.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.figure = (() => {
  const { el, toggle, choice } = tpo.dom;
  const MANY = 8; // a longer legend is below its figure, in the order of where the lines finish

  function mount(host, study) {
    const panels = [...study.panels, ...profile(study)].map((p) => withAxes(p, study));
    const curves = panels.filter((p) => !p.kind && p.series.length);
    const view = { // log: null until chosen, which leaves each panel as it is declared
      log: null, xLog: Boolean(study.x && study.x.log), centre: "mean", seeds: false, mode: "curves",
      hidden: new Set(), focus: new Set(study.highlight || []), preset: Boolean((study.highlight || []).length),
    };
    const figure = { view, drawn: [], entries: ordered(legendEntries(panels), curves), key: null };
    figure.redraw = () => {
      if (figure.key) figure.key.sync();
      figure.drawn.forEach((panel) => panel.redraw());
    };
    view.pick = (key) => { tpo.legend.pick(view, key); figure.redraw(); };
    figure.legend = (own, changed) => figure.entries.length > 1 ? tpo.legend.mount(figure.entries, own, changed) : null;
    const [main, more] = [panels.filter((p) => p.main !== false), panels.filter((p) => p.main === false)];
    const grids = [el("div.panels"), el("div.panels")];
    const fill = () => {
      figure.drawn.length = 0;
      grids[0].replaceChildren(...main.map((data) => card(data, figure, main.length === 1)));
      grids[1].replaceChildren(...more.map((data) => card(data, figure, false)));
      if (!panels.length) grids[0].append(el("p.empty", {}, "No finished run yet."));
    };
    if (curves.length) host.append(switches(curves, view, figure.redraw, fill));
    figure.key = figure.legend(view, figure.redraw);
    const key = figure.key ? [figure.key.box] : [];
    host.append(...(figure.entries.length > MANY ? [grids[0], ...key] : [...key, grids[0]]));
    if (more.length) host.append(el("details.more", {}, el("summary", {}, moreWords(more)), grids[1]));
    fill();
  }

  function moreWords(panels) {
    const names = [...new Set(panels.map((p) => p.title))];
    const shown = names.length > 4 ? [...names.slice(0, 3), `${names.length - 3} others`] : names;
    return `More figures: ${shown.join(", ")}`;
  }

  function withAxes(panel, study) {
    const [x, y] = [panel.x || study.x, panel.y || study.y];
    return { ...panel, own_x: panel.x, x, y, title: panel.title || `${y.label} by ${x.label}` };
  }

  function switches(curves, view, redraw, refill) {
    const set = (key, act = redraw) => (value) => { view[key] = value; act(); };
    const series = curves.flatMap((p) => p.series);
    const hasSeeds = series.some((s) => (s.seeds || []).length > 1);
    const hasMedian = series.some((s) => s.median);
    const hasEnds = hasSeeds || series.some((s) => (s.end || []).length > 1);
    const scales = [["linear", "linear"], ["log", "log"]];
    return el("div.switches", {},
      choice("Vertical scale", scales, curves[0].y.log ? "log" : "linear", (v) => set("log")(v === "log")),
      hasMedian ? choice("Centre line", [["mean", "mean ± s.e."], ["median", "median"]], "mean", set("centre")) : null,
      hasEnds ? choice("View", [["curves", "curves"], ["final", "final value of each seed"]], "curves",
        set("mode", refill)) : null,
      hasSeeds ? toggle("single seeds", false, set("seeds")) : null);
  }

  // A series without a legend of its own: the bars of one series are coloured by their names
  function legendEntries(panels) {
    const found = new Map();
    for (const s of panels.filter((p) => p.kind !== "profile").flatMap((p) => p.series)) {
      if (s.styles) continue;
      if (!found.has(s.key)) found.set(s.key, { ...s, seen: [] });
      if (s.n) found.get(s.key).seen.push(s);
    }
    return [...found.values()];
  }
  // Many lines in the order of where they finish
  function ordered(entries, curves) {
    if (entries.length <= MANY || !curves.length) return entries;
    const last = new Map(curves[0].series.map((s) => [s.key, s.mean.at(-1)]));
    const sign = /accuracy|success/.test(curves[0].y.label) ? -1 : 1;
    const place = (s) => (last.has(s.key) && last.get(s.key) !== null ? sign * last.get(s.key) : Infinity);
    return entries.sort((a, b) => place(a) - place(b) || 0);
  }

  function card(data, figure, alone) {
    const body = el("div.canvas");
    const box = el("section.panel", {}, el("header", {}, el("h3", {}, data.title), enlarge(data, figure)), body);
    if (data.kind === "profile") box.append(el("p.note-line", {}, "Higher, and further left, is better."));
    box.classList.toggle("big", data.kind === "simplex");
    figure.drawn.push(paint(body, data, figure.view, alone ? { height: 430 } : {}));
    return box;
  }
  function enlarge(data, figure) {
    const button = el("button.enlarge", { type: "button", "aria-label": "Enlarge this panel", title: "Enlarge" }, "⤢");
    button.addEventListener("click", () => tpo.enlarge.open({
      title: data.title, view: figure.view, legend: figure.legend,
      paint: (body, view) => paint(body, data, view, {}), closed: figure.redraw,
    }));
    return button;
  }

  function paint(body, data, view, own) {
    const { bars, strip, simplex, mount: picture } = tpo.shapes;
    if (!data.series.length) {
      body.append(el("p.empty", {}, "No finished run yet."));
      return { redraw: () => {} };
    }
    const common = () => ({ title: data.title, series: data.series, hidden: others(data, view) });
    if (data.kind === "bars") return picture(body, (svg, width) => bars(svg, { ...common(), x: data.own_x, y: data.y }, width));
    if (data.kind === "simplex") return picture(body, (svg, width) => simplex(svg, corners(data, view), width));
    if (view.mode === "final" && !data.kind) {
      return picture(body, (svg, width) => strip(svg, { ...common(), y: data.y, log: isLog(view, data) }, width));
    }
    if (data.kind !== "profile") return tpo.chart.panel(body, data, Object.assign(view.fill ? view : inherit(view), own));
    return tpo.chart.panel(body, data, Object.assign(inherit(view), { log: false, centre: "mean", seeds: false }, own));
  }
  const inherit = (view) => Object.create(view); // later choices in the view are seen
  const isLog = (view, data) => Boolean(view.log === null ? data.y.log : view.log);

  // Pictures leave out what is not isolated
  function others(data, view) {
    const lit = tpo.legend.lit(data.series, view.focus);
    return new Set(data.series.map((s) => s.key).filter((key) => !lit.has(key)));
  }

  // A series of a simplex panel is a set of arrows, or a path of points of which the last is marked
  function corners(data, view) {
    const hidden = others(data, view);
    const shown = data.series.filter((s) => !hidden.has(s.key));
    const drawn = shown.filter((s) => (s.points || []).length);
    return {
      arrows: shown.filter((s) => s.from),
      title: data.title,
      names: data.corners || ["1", "2", "3"],
      paths: drawn.filter((s) => s.points.length > 1),
      marks: drawn.map((s) => ({ style: s.style, name: s.label, point: s.points.at(-1) })),
    };
  }

  // Several methods' performance profiles as one more panel
  function profile(study) {
    const series = (study.profiles || []).map((p) => ({ ...p, x: p.tau, mean: p.share }));
    if (series.length < 2) return [];
    return [{ kind: "profile", main: false, title: "Performance profile", series, zero: true,
      x: { label: "final error τ", log: true }, y: { label: "share of runs with a final error of at most τ" } }];
  }

  return { mount };
})();
