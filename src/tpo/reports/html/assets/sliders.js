// Sliders of one look in every browser: the filled part ends at the thumb, the value is written beside its label.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.sliders = (() => {
  const { el, number } = tpo.dom;

  // Where the thumb is, 0 to 1, for the style sheet's filled part
  function paint(input) {
    const [low, high] = [Number(input.min), Number(input.max)];
    input.style.setProperty("--at", (Number(input.value) - low) / (high - low));
  }

  // A labelled slider with its value; `log` for a logarithmic scale
  function dial(label, low, high, start, log = false, step = "any") {
    const [to, from] = log ? [Math.log10, (v) => 10 ** v] : [(v) => v, (v) => v];
    const input = el("input", { type: "range", min: to(low), max: to(high), step, value: to(start), "aria-label": label });
    const text = el("output");
    const value = () => from(Number(input.value));
    const say = () => {
      text.textContent = number(value());
      input.setAttribute("aria-valuetext", number(value()));
      paint(input);
    };
    const set = (v) => { input.value = to(v); say(); };
    input.addEventListener("input", say);
    say();
    return { node: el("label.dial", {}, el("span", {}, label), input, text), value, set, input };
  }

  return { dial, paint };
})();
