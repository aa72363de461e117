// Starts the page: figures from the data block, the theme, copy buttons, the playground.
"use strict";
(() => {
  const { el } = tpo.dom;
  const block = document.getElementById("report-data");
  const { studies = [], presets = [] } = block ? JSON.parse(block.textContent) : {};
  studies.forEach((study, i) => {
    const host = document.querySelector(`[data-figure="${i}"]`);
    if (host) tpo.figure.mount(host, study);
  });

  for (const pre of document.querySelectorAll("pre.command")) {
    const button = el("button.copy", { type: "button" }, "copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(pre.querySelector("code").textContent);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(pre.querySelector("code"));
        button.textContent = "selected";
      }
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    pre.append(button);
  }

  // Auto, light, dark; remembered where the browser lets a local file remember
  const THEMES = ["auto", "light", "dark"];
  const remembered = () => { try { return localStorage.getItem("tpo-theme"); } catch { return null; } };
  const remember = (theme) => { try { localStorage.setItem("tpo-theme", theme); } catch { /* not kept */ } };
  const themeButton = document.getElementById("theme");
  function apply(theme) {
    document.documentElement.dataset.theme = theme;
    themeButton.textContent = `theme: ${theme}`;
  }
  apply(THEMES.includes(remembered()) ? remembered() : "auto");
  themeButton.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme;
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    apply(next);
    remember(next);
  });

  const contents = document.getElementById("contents");
  if (contents) tpo.contents.mount(contents);
  tpo.contents.printing();

  const playground = document.getElementById("playground-body");
  if (playground) tpo.playground.mount(playground, presets);
  tpo.embed();
  document.documentElement.dataset.ready = "true";
})();
