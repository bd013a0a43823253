"use strict";
// Bars of a histogram that lead somewhere are one stop of the Tab key; the arrow keys move among them.
for (const drawing of document.querySelectorAll("figure .drawing")) {
  const bars = [...drawing.querySelectorAll("svg a")];
  bars.forEach((bar, at) => {
    bar.setAttribute("tabindex", at ? "-1" : "0");
    bar.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const next = by && bars[at + by];
      if (!next) return;
      event.preventDefault();
      bar.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  });
}
