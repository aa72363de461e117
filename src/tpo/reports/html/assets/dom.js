// Elements without innerHTML: text is always text.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.dom = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const IN_SVG = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "polygon", "title"]);
  let ids = 0;

  // el("button.small", { type: "button", onclick }, "text", child, ...)
  function el(name, attributes = {}, ...children) {
    const [tag, ...classes] = name.split(".");
    const node = IN_SVG.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
    if (classes.length) node.setAttribute("class", classes.join(" "));
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return node;
  }

  const fresh = (prefix) => `${prefix}-${++ids}`;

  // 3 significant digits, no trailing noise
  function number(x, digits = 3) {
    if (x === null || x === undefined || Number.isNaN(x)) return "–";
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e5 || size < 1e-3) return x.toExponential(digits - 1).replace(/\.?0+e/, "e");
    return String(Number(x.toPrecision(digits)));
  }

  // Draws only what has changed: whether these values differ from those of the last call
  function changes() {
    let last = null;
    return (...values) => {
      const now = JSON.stringify(values);
      return now !== last && ((last = now), true);
    };
  }

  // A labelled button that stays pressed
  function toggle(text, pressed, act) {
    const button = el("button.toggle", { type: "button", "aria-pressed": String(pressed) }, text);
    button.addEventListener("click", () => {
      const now = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(now));
      act(now);
    });
    return button;
  }

  // A row of buttons of which one is pressed
  function choice(label, options, chosen, act) {
    const buttons = options.map(([value, text]) =>
      el("button", { type: "button", "aria-pressed": String(value === chosen), "data-value": value,
        onclick: () => {
          for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset.value === value));
          act(value);
        } }, text));
    return el("div.choice", { role: "group", "aria-label": label }, buttons);
  }

  // Draw now and whenever the width changes
  function onWidth(host, draw) {
    let last = 0;
    new ResizeObserver(() => {
      const width = Math.floor(host.clientWidth);
      if (width > 0 && width !== last) draw((last = width));
    }).observe(host);
  }

  return { el, fresh, changes, number, toggle, choice, onWidth };
})();
