// Names beside lines: at their right ends, moved apart where they would cover each other.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.labels = (() => {
  const { el } = tpo.dom;
  const { usable } = tpo.scales;
  const [LETTER, LINE, MOST, WIDE] = [7.4, 15, 9, 600];

  // Pixels to keep free at the right; none on narrow panels, for a single line or for many
  function margin(series, width) {
    if (width < WIDE || series.length < 2 || series.length > MOST) return 0;
    const longest = Math.max(...series.map((s) => s.label.length));
    return Math.min(longest * LETTER + 30, width * 0.34);
  }

  // series: with their last `value`; box: the plot's edges
  function atEnds(series, y, box, width) {
    const known = series.filter((s) => usable(s.value))
      .map((s) => ({ ...s, from: y.at(s.value) })).sort((a, b) => a.from - b.from);
    place(known, box);
    const most = Math.floor((width - box.right - 22) / LETTER);
    return el("g.end-labels", {}, known.map(({ style, label, from, at }) => el("g", { class: style },
      el("line.leader", { x1: box.right + 3, y1: from, x2: box.right + 15, y2: at }),
      el("text.end-label", { x: box.right + 18, y: at + 4 }, el("title", {}, label),
        label.length > most ? `${label.slice(0, most - 1)}…` : label))));
  }
  // From the top down at least a line apart, then pushed up where that leads below the plot
  function place(known, box) {
    let free = box.top;
    for (const one of known) free = (one.at = Math.max(one.from, free)) + LINE;
    let limit = box.bottom;
    for (const one of known.toReversed()) limit = (one.at = Math.min(one.at, limit)) - LINE;
  }

  // Steps all end at 1: each name is beside its own rise instead, at a height of its own
  function besideRises(series, x, y, box) {
    const half = (s) => riseTo(s, 0.5) ?? Infinity;
    const known = [...series].sort((a, b) => half(a) - half(b));
    return el("g.end-labels", {}, known.map((s, i) => {
      const height = 1 - (i + 1) / (known.length + 1);
      const at = riseTo(s, height);
      const px = at === null ? box.right : x.at(at);
      const left = px > box.right - s.label.length * LETTER - 8;
      return el("g", { class: s.style }, el("text.end-label", {
        x: px + (left ? -6 : 6), y: y.at(height) + 4, "text-anchor": left ? "end" : "start" },
      el("title", {}, s.label), s.label));
    }));
  }
  // The first x at which a share reaches that height
  function riseTo(series, height) {
    const i = series.mean.findIndex((share) => share >= height);
    return i < 0 ? null : series.x[i];
  }

  return { margin, atEnds, besideRises, MOST, WIDE };
})();
