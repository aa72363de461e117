// One panel over the whole window, with its legend; Escape or the button closes it.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.enlarge = (() => {
  const { el } = tpo.dom;

  // paint(body, view) draws the panel and returns { redraw }; legend(changed) returns { box, sync } or null
  function open({ title, view, paint, legend, closed }) {
    const body = el("div.canvas");
    const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close (Esc)");
    const large = { ...view, fill: true };
    let drawn = null;
    const key = legend(large, () => { key.sync(); drawn.redraw(); });
    const dialog = el("dialog.large", { "aria-label": title },
      el("header", {}, el("h2", {}, title), close), key ? key.box : null, body);
    document.body.append(dialog);
    dialog.showModal();
    drawn = paint(body, large);
    const resized = () => drawn.redraw();
    window.addEventListener("resize", resized);
    dialog.addEventListener("close", () => {
      window.removeEventListener("resize", resized);
      dialog.remove();
      view.preset = large.preset;
      closed();
    });
  }

  return { open };
})();
