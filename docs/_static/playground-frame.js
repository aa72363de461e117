// A page that holds the playground gives it the fragment of its address and its theme, and takes its height.
for (const frame of document.querySelectorAll("iframe.playground")) {
  const plain = frame.src;
  const follow = () => {
    if (!/^#(preset=|playground:)/.test(location.hash)) return;
    frame.src = plain + location.hash;
    frame.scrollIntoView();
  };
  const theme = () => frame.contentWindow.postMessage({ theme: document.body.dataset.theme || "auto" }, "*");
  addEventListener("message", ({ source, data }) => {
    if (source !== frame.contentWindow || !(data && data.playground > 0)) return;
    frame.style.height = `${data.playground}px`;
    theme();
  });
  addEventListener("hashchange", follow);
  new MutationObserver(theme).observe(document.body, { attributeFilter: ["data-theme"] });
  follow();
}
