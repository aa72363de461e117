// The presets, by topic, and the sentence that says what to look at.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.guide = (() => {
  const { el } = tpo.dom;

  function mount(host, presets, choose) {
    const pick = (preset) => {
      choose(preset);
      try { history.replaceState(null, "", tpo.link.PRESET + preset.name); } catch { /* an address that cannot change */ }
    };
    const button = (preset) => el("button", { type: "button", "data-preset": preset.name, title: preset.shows,
      onclick: () => pick(preset) }, preset.label);
    const topics = [...new Set(presets.map((preset) => preset.topic))].map((topic) =>
      el("div.topic", { role: "group", "aria-label": topic }, el("span", {}, topic),
        el("div.presets", {}, presets.filter((preset) => preset.topic === topic).map(button))));
    const look = el("p.look", { "aria-live": "polite" });
    host.append(el("div.guide", {}, topics), look);
    return (state) => {
      for (const b of host.querySelectorAll("[data-preset]")) b.setAttribute("aria-pressed", String(b.dataset.preset === state.preset));
      const shown = presets.find((preset) => preset.name === state.preset);
      look.hidden = !shown;
      if (shown && look.textContent !== shown.look) look.textContent = shown.look;
    };
  }

  return { mount };
})();
