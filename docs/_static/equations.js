// Draws every equation of the page; MathML for screen readers is part of KaTeX's output.
for (const place of document.querySelectorAll(".math")) {
  const displayMode = place.tagName === "DIV";
  katex.render(place.textContent, place, { displayMode, throwOnError: false });
}
