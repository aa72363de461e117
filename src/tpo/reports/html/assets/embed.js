// Inside another page (`?embed`): no header of its own, the page around it sets the theme and is told the height.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.embed = () => {
  if (!new URLSearchParams(location.search).has("embed") || parent === window) return;
  const root = document.documentElement;
  root.dataset.embed = "";
  addEventListener("message", ({ source, data }) => {
    if (source === parent && ["auto", "light", "dark"].includes(data && data.theme)) root.dataset.theme = data.theme;
  });
  const tell = () => parent.postMessage({ playground: Math.ceil(document.body.getBoundingClientRect().height) }, "*");
  new ResizeObserver(tell).observe(document.body);
};
