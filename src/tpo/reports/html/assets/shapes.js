// Pictures that are not lines over x: bars, one dot per seed, the 3-simplex.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.shapes = (() => {
  const { el, number, onWidth } = tpo.dom;
  const { scale, tickText, usable } = tpo.scales;

  function sized(svg, width, height, label) {
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
  }
  const gutter = (names, width) =>
    Math.min(Math.max(...names.map((n) => n.length)) * 6.8 + 14, width * 0.42);

  // Names that are too long for the gutter end in an ellipsis, and are whole in a tooltip
  function rowName(name, right, y) {
    const most = Math.max(4, Math.floor((right - 8) / 6.6));
    const text = name.length > most ? `${name.slice(0, most - 1)}…` : name;
    return el("text.name", { x: right - 8, y, "text-anchor": "end" }, el("title", {}, name), text);
  }

  // ---- horizontal bars, grouped by name -------------------------------------------------------
  // series: [{ label, style, styles?, x: [names], y: [values], se? }]
  function bars(svg, { title, series, hidden = new Set(), x: by = {}, y = {} }, width) {
    const shown = series.filter((s) => !hidden.has(s.key));
    const names = [...new Set(shown.flatMap((s) => s.x.map(String)))];
    const thick = shown.length > 1 ? 12 : 18;
    const group = shown.length * thick + 12;
    const top = by.label ? 20 : 0;
    const height = top + Math.max(names.length, 1) * group + (y.label ? 46 : 30);
    const text = shown.flatMap((s) => s.x.map((n, i) => `${s.label} ${n} ${number(s.y[i])}`)).join(", ");
    sized(svg, width, height, `${title}: ${text}`);
    if (!names.length) return;
    const left = gutter(names, width);
    const reach = shown.flatMap((s) => s.y.map((v, i) => (usable(v) ? v + Math.sign(v) * ((s.se && s.se[i]) || 0) : 0)));
    const x = scale(reach, { from: left + 8, to: width - 58, include: [0], count: width / 110 });
    barGrid(svg, x, top, top + names.length * group);
    if (by.label) svg.append(el("text.label", { x: left - 8, y: 13, "text-anchor": "end" }, by.label));
    if (y.label) svg.append(el("text.label", { x: (left + width - 50) / 2, y: height - 5, "text-anchor": "middle" }, y.label));
    names.forEach((name, row) => {
      const first = top + row * group + 6;
      svg.append(rowName(name, left, first + (shown.length * thick) / 2 + 4));
      shown.forEach((s, j) => bar(svg, s, s.x.map(String).indexOf(name), x, first + j * thick, thick));
    });
  }
  function barGrid(svg, x, top, bottom) {
    const grid = el("g.grid");
    for (const t of x.ticks) {
      grid.append(
        el("line", { x1: x.at(t), x2: x.at(t), y1: top, y2: bottom + 4 }),
        el("text", { x: x.at(t), y: bottom + 20, "text-anchor": "middle" }, tickText(t)));
    }
    grid.append(el("line.base", { x1: x.at(0), x2: x.at(0), y1: top, y2: bottom + 4 }));
    svg.append(grid);
  }
  function bar(svg, series, i, x, top, thick) {
    if (i < 0 || !usable(series.y[i])) return;
    const value = series.y[i];
    const se = series.se && usable(series.se[i]) ? series.se[i] : 0;
    const [from, to] = [Math.min(x.at(0), x.at(value)), Math.max(x.at(0), x.at(value))];
    const middle = top + thick / 2 - 1;
    const g = el("g", { class: `bar ${(series.styles && series.styles[i]) || series.style}` },
      el("title", {}, `${series.label}, ${series.x[i]}: ${number(value)}${se ? ` ± ${number(se, 2)}` : ""}`),
      el("rect", { x: from, y: top, width: Math.max(to - from, 1), height: thick - 2, rx: 1.5 }));
    if (se) g.append(el("line.whisker", { x1: x.at(value - se), x2: x.at(value + se), y1: middle, y2: middle }));
    const end = Math.max(to, x.at(value + se)) + 5;
    g.append(el("text.value", { x: end, y: middle + 4 }, number(value)));
    svg.append(g);
  }

  // ---- one dot per seed -----------------------------------------------------------------------
  const lastOf = (seed) => seed.filter(usable).at(-1);
  function strip(svg, { title, series, y, hidden = new Set(), log }, width) {
    const shown = series.filter((s) => !hidden.has(s.key)).map((s) => ({
      s, values: (s.end && s.end.length ? s.end : (s.seeds || []).map(lastOf)).filter(usable).sort((a, b) => a - b) }));
    const row = 30;
    const height = Math.max(shown.length, 1) * row + 46;
    const spoken = shown.map(({ s, values }) =>
      `${s.label}: median ${number(median(values))} of ${values.length} seeds`).join(", ");
    sized(svg, width, height, `${title}, final value of each seed. ${spoken}`);
    if (!shown.length) return;
    const left = gutter(shown.map(({ s }) => s.label), width);
    const x = scale(shown.flatMap(({ values }) => values), {
      log, from: left + 10, to: width - 16, include: log ? [] : [0], count: width / 90 });
    const grid = el("g.grid");
    for (const t of x.ticks) {
      grid.append(
        el("line", { x1: x.at(t), x2: x.at(t), y1: 0, y2: height - 42 }),
        el("text", { x: x.at(t), y: height - 26, "text-anchor": "middle" }, tickText(t)));
    }
    grid.append(el("text.label", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" },
      `${y.label}, final value of each seed`));
    svg.append(grid, ...shown.map(({ s, values }, i) => stripRow(s, values, x, i * row + row / 2 + 2, left)));
  }
  function stripRow(series, values, x, middle, left) {
    const g = el("g", { class: `strip ${series.style}` }, rowName(series.label, left, middle + 4));
    values.forEach((v, i) => g.append(
      el("circle", { cx: x.at(v), cy: middle + ((i * 7) % 11) - 5, r: 3.2 }, el("title", {}, number(v)))));
    if (values.length) {
      const m = x.at(median(values));
      g.append(el("line.median", { x1: m, x2: m, y1: middle - 11, y2: middle + 11 }));
    }
    return g;
  }
  function median(sorted) {
    const n = sorted.length;
    return n ? (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2 : null;
  }

  // ---- the 3-simplex --------------------------------------------------------------------------
  function triangle(width) {
    const side = Math.min(width - 84, 380);
    const tall = (side * Math.sqrt(3)) / 2;
    const left = (width - side) / 2;
    const corners = [[left + side / 2, 26], [left, 26 + tall], [left + side, 26 + tall]];
    const at = (p) => [0, 1].map((axis) => p[0] * corners[0][axis] + p[1] * corners[1][axis] + p[2] * corners[2][axis]);
    // The inverse, pulled back inside
    const from = (px, py) => {
      const top = 1 - (py - 26) / tall;
      const right = (px - left) / side - top / 2;
      const raw = [top, 1 - top - right, right].map((v) => Math.max(v, 0.001));
      const total = raw[0] + raw[1] + raw[2];
      return raw.map((v) => v / total);
    };
    return { corners, at, from, height: Math.round(tall + 56) };
  }
  // paths: [{ style, points }], arrows: [{ style, from, to }], marks: [{ style, point, name }]; names: of the corners
  function simplex(svg, { title, names, paths = [], arrows = [], marks = [] }, width) {
    const t = triangle(width);
    const where = marks.map((m) => `${m.name} (${m.point.map((v) => number(v, 2)).join(", ")})`)
      .concat(arrows.map((a) => `${a.from.length} arrows of ${a.label}`));
    sized(svg, width, t.height, `${title}: ${where.join("; ")}`);
    svg.append(el("polygon.simplex", { points: t.corners.map((c) => c.join(",")).join(" ") }));
    for (const share of [0.25, 0.5, 0.75]) svg.append(...contour(t, share));
    names.forEach((name, k) => svg.append(el("text.label", {
      x: t.corners[k][0], y: t.corners[k][1] + (k ? 20 : -9), "text-anchor": "middle" }, name)));
    for (const { style, points } of paths) {
      const d = points.map((p, i) => `${i ? "L" : "M"}${t.at(p).map((v) => v.toFixed(1)).join(" ")}`).join("");
      svg.append(el("g", { class: `series ${style}` }, el("path.centre", { d })));
    }
    for (const { style, from, to } of arrows) {
      svg.append(el("g", { class: `arrow ${style}` }, from.map((p, i) => arrow(t.at(p), t.at(to[i])))));
    }
    for (const { style, point, name } of marks) {
      const [x, y] = t.at(point);
      svg.append(el("g", { class: `mark ${style}` },
        el("circle", { cx: x, cy: y, r: 5.5 }, el("title", {}, name)),
        el("text", style === "goal" ? { x: x - 9, y: y - 7, "text-anchor": "end" } : { x: x + 9, y: y - 7 }, name)));
    }
    return t;
  }
  // A line with a head that shrinks with short arrows; a dot where nothing moves
  function arrow([x, y], [u, v]) {
    const length = Math.hypot(u - x, v - y);
    if (length < 0.8) return el("circle", { cx: x, cy: y, r: 1.3 });
    const head = Math.min(5, length * 0.5);
    const [dx, dy] = [(u - x) / length, (v - y) / length];
    const wing = (side) => `${u - head * (dx - side * 0.6 * dy)} ${v - head * (dy + side * 0.6 * dx)}`;
    return el("path", { d: `M${x} ${y}L${u} ${v}M${wing(1)}L${u} ${v}L${wing(-1)}` });
  }
  function contour(t, share) {
    return [0, 1, 2].map((k) => {
      const point = (other) => t.at([0, 1, 2].map((i) => (i === k ? share : i === other ? 1 - share : 0)));
      const [a, b] = [point((k + 1) % 3), point((k + 2) % 3)];
      return el("line.contour", { x1: a[0], y1: a[1], x2: b[0], y2: b[1] });
    });
  }

  // A picture that follows the width of its host
  function mount(host, paint) {
    const svg = el("svg.plot");
    host.append(svg);
    const redraw = (width = Math.floor(host.clientWidth)) => width >= 40 && paint(svg, width);
    onWidth(host, redraw);
    return { redraw, svg };
  }

  return { bars, strip, simplex, mount };
})();
