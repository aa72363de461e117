// The contents: where the reader is, a menu that closes; and what print needs.
"use strict";
globalThis.tpo = globalThis.tpo || {};

tpo.contents = (() => {
  function mount(nav) {
    const links = new Map([...nav.querySelectorAll("a")].map((link) => [link.getAttribute("href").slice(1), link]));
    const parts = [...links.keys()].map((id) => document.getElementById(id)).filter(Boolean);
    nav.addEventListener("click", (event) => {
      if (event.target.closest("a") && nav.matches(":popover-open")) nav.hidePopover();
    });
    const mark = () => {
      const here = parts.filter((part) => part.getBoundingClientRect().top < 160).at(-1) || parts[0];
      for (const [id, link] of links) {
        if (here && id === here.id) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    };
    let waiting = false;
    addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; mark(); });
    }, { passive: true });
    mark();
  }

  // On paper nothing can be opened: all details are printed, and closed again afterwards
  function printing() {
    let opened = [];
    addEventListener("beforeprint", () => {
      opened = [...document.querySelectorAll("main details:not([open])")];
      for (const details of opened) details.open = true;
    });
    addEventListener("afterprint", () => { for (const details of opened) details.open = false; });
  }

  return { mount, printing };
})();
