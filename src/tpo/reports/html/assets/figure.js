// The figure of a study: its panels, one legend and one set of switches for all of them.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.figure = (() => {
  const { el, toggle, choice } = tpo.dom;

  function mount(host, study) {
    const panels = [...study.panels, ...profile(study)].map((p) => withAxes(p, study));
    const lines = panels.filter((p) => !p.kind && p.series.length);
    const view = { // log: null until chosen, which leaves each panel as it is declared
      log: null, xLog: Boolean(study.x && study.x.log), centre: "mean",
      seeds: false, mode: "curves", hidden: new Set(),
    };
    const drawn = [];
    const redraw = () => drawn.forEach((panel) => panel.redraw());
    const grid = el("div.panels");
    const fill = () => {
      if (panels.length) grid.replaceChildren();
      drawn.length = 0;
      for (const data of panels) drawn.push(card(grid, data, view));
    };
    if (lines.length) host.append(switches(lines, view, redraw, fill));
    const entries = legendEntries(panels);
    if (entries.length > 1) host.append(legend(entries, view, redraw));
    host.append(grid);
    if (!panels.length) grid.append(el("p.empty", {}, "No finished run yet."));
    fill();
  }

  function withAxes(panel, study) {
    const [x, y] = [panel.x || study.x, panel.y || study.y];
    return { ...panel, own_x: panel.x, x, y, title: panel.title || `${y.label} by ${x.label}` };
  }

  function switches(lines, view, redraw, refill) {
    const set = (key, act = redraw) => (value) => { view[key] = value; act(); };
    const hasSeeds = lines.some((p) => p.series.some((s) => (s.seeds || []).length > 1));
    const hasMedian = lines.some((p) => p.series.some((s) => s.median));
    const scales = [["linear", "linear"], ["log", "log"]];
    return el("div.switches", {},
      choice("Vertical scale", scales, lines[0].y.log ? "log" : "linear", (v) => set("log")(v === "log")),
      hasMedian ? choice("Centre line", [["mean", "mean ± s.e."], ["median", "median"]], "mean", set("centre")) : null,
      hasSeeds ? choice("View", [["curves", "curves"], ["last", "last value of each seed"]], "curves",
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
  function legend(entries, view, redraw) {
    return el("div.legend", { role: "group", "aria-label": "Show or hide" }, entries.map((s) => {
      const button = toggle("", true, (on) => {
        view.hidden[on ? "delete" : "add"](s.key);
        redraw();
      });
      button.append(el("span", { class: `swatch ${s.style}` }), s.label, seedsOf(s));
      return button;
    }));
  }
  // The number of seeds of a line; a range where the panels differ
  function seedsOf({ seen }) {
    if (!seen.length) return "";
    const [few, many] = [Math.min(...seen.map((s) => s.n)), Math.max(...seen.map((s) => s.n))];
    const planned = Math.max(...seen.map((s) => s.planned || s.n));
    const unfinished = few < planned || seen.some((s) => s.done === false);
    const counted = few === many ? few : `${few}–${many}`;
    return el("small", {}, unfinished ? ` n = ${counted} of ${planned}` : ` n = ${counted}`);
  }

  function card(grid, data, view) {
    const body = el("div.canvas");
    const box = el("section.panel", {}, el("header", {}, el("h3", {}, data.title || ""), widen()), body);
    box.classList.toggle("big", data.kind === "simplex");
    grid.append(box);
    return paint(body, data, view);
  }
  function widen() {
    const button = toggle("⤢", false, (on) => button.closest(".panel").classList.toggle("wide", on));
    button.setAttribute("aria-label", "Enlarge this panel");
    button.setAttribute("title", "Enlarge");
    return button;
  }
  function paint(body, data, view) {
    const { bars, strip, simplex, mount: picture } = tpo.shapes;
    if (!data.series.length) {
      body.append(el("p.empty", {}, "No finished run yet."));
      return { redraw: () => {} };
    }
    const common = { title: data.title, series: data.series, hidden: view.hidden };
    if (data.kind === "bars") return picture(body, (svg, width) => bars(svg, { ...common, x: data.own_x, y: data.y }, width));
    if (data.kind === "simplex") return picture(body, (svg, width) => simplex(svg, corners(data, view), width));
    if (view.mode === "last" && !data.kind) {
      return picture(body, (svg, width) => strip(svg, { ...common, y: data.y, log: isLog(view, data) }, width));
    }
    const fixed = { log: false, centre: "mean", seeds: false, hidden: view.hidden };
    return tpo.chart.panel(body, data, data.kind === "profile" ? fixed : view);
  }
  const isLog = (view, data) => Boolean(view.log === null ? data.y.log : view.log);

  // A series of a simplex panel is a set of arrows, or a path of points of which the last is marked
  function corners(data, view) {
    const shown = data.series.filter((s) => !view.hidden.has(s.key));
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
    return [{ kind: "profile", title: "Performance profile", series, zero: true,
      x: { label: "τ", log: true }, y: { label: "share of runs that end at τ or below" } }];
  }

  return { mount };
})();
