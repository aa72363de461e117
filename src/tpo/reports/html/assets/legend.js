// The legend of a figure: a click isolates a line, further clicks add others to it, Escape shows all again.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.legend = (() => {
  const { el } = tpo.dom;
  const FEW = 6; // fewer lines need no words about how to isolate one

  // view.focus: the keys that are isolated, none for all; view.preset: they were chosen by the report
  function mount(entries, view, changed) {
    const toggle = (key) => { pick(view, key); changed(); };
    const clear = () => { view.focus.clear(); view.preset = false; changed(); };
    const buttons = entries.map((entry) => {
      const button = el("button.toggle", { type: "button", "data-key": entry.key, onclick: () => toggle(entry.key) },
        el("span", { class: `swatch ${entry.style}` }), entry.label, seedsOf(entry));
      return button;
    });
    const all = el("button.all", { type: "button", onclick: clear }, "show all");
    const words = entries.length < FEW ? null
      : el("span.hint", {}, "Click names to isolate them; Esc shows all.");
    const box = el("div.legend", { role: "group", "aria-label": "Isolate lines" }, buttons, all, words);
    box.addEventListener("keydown", (event) => moved(event, box, view, clear));
    const sync = () => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(view.focus.has(button.dataset.key)));
      all.hidden = !view.focus.size;
    };
    sync();
    return { box, sync };
  }

  // The first choice replaces what the report chose; all chosen is the same as none
  function pick(view, key) {
    if (view.preset) view.focus.clear();
    view.preset = false;
    if (!view.focus.delete(key)) view.focus.add(key);
  }

  function moved(event, box, view, clear) {
    if (event.key === "Escape" && view.focus.size) {
      event.preventDefault(); // within a dialog, Escape first shows all lines
      event.stopPropagation();
      return void clear();
    }
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const buttons = [...box.querySelectorAll("button:not([hidden])")];
    const at = buttons.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    buttons[(at + step + buttons.length) % buttons.length].focus();
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

  // What is isolated among these series; all of them where none of them is
  function lit(series, focus) {
    const chosen = focus && focus.size ? series.filter((s) => focus.has(s.key)) : [];
    return new Set((chosen.length ? chosen : series).map((s) => s.key));
  }

  return { mount, pick, lit };
})();
