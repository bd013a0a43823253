"use strict";
// Reads the charts out: the values of the step under the pointer, beside a rule at that step.
(() => {
  const smoothing = document.getElementById("smoothing");
  if (smoothing) {
    const box = smoothing.querySelector("input");
    smoothing.hidden = false;
    smoothing.addEventListener("submit", (event) => event.preventDefault());
    box.addEventListener("change", () => document.body.classList.toggle("unsmoothed", !box.checked));
  }
  const charts = JSON.parse(document.getElementById("chart-data").textContent);
  const make = (tag, className, text = "") => {
    const node = document.createElement(tag);
    node.className = className;
    node.textContent = text;
    return node;
  };
  const shown = (value, isShare) => {
    if (value === null) return "–";
    const text = isShare ? `${(100 * value).toFixed(1)} %` : String(Number(value.toPrecision(4)));
    return text.replace("-", "−");
  };

  function nearest(steps, wanted) {
    let low = 0;
    let high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low > 0 && wanted - steps[low - 1] < steps[low] - wanted ? steps[low - 1] : steps[low];
  }

  for (const drawing of document.querySelectorAll(".drawing[data-chart]")) {
    const chart = charts[drawing.dataset.chart];
    const steps = [...new Set(chart.series.flatMap((series) => series.steps))].sort((a, b) => a - b);
    const rule = make("i", "rule");
    const tip = make("div", "tip");
    rule.hidden = tip.hidden = true;
    drawing.append(rule, tip);

    const hide = () => {
      rule.hidden = tip.hidden = true;
    };
    const show = (event) => {
      const box = drawing.getBoundingClientRect();
      const scale = box.width / drawing.firstElementChild.viewBox.baseVal.width;
      const left = chart.left * scale;
      const width = box.width - left - chart.right * scale;
      const wanted = chart.low + ((event.clientX - box.left - left) / width) * (chart.high - chart.low);
      const step = nearest(steps, wanted);
      const x = left + (width * (step - chart.low)) / (chart.high - chart.low);
      const rows = [];
      for (const series of chart.series) {
        const at = series.steps.indexOf(step);
        if (at < 0) continue;
        const row = make("div", "");
        const swatch = make("i", "swatch");
        swatch.style.background = `var(--${series.role})`;
        row.append(swatch, make("span", "", series.label), make("b", "", shown(series.values[at], chart.share)));
        rows.push(row);
      }
      tip.replaceChildren(make("small", "", `step ${step}`), ...rows);
      rule.style.left = `${x}px`;
      tip.style.left = x < box.width / 2 ? `${x + 10}px` : "";
      tip.style.right = x < box.width / 2 ? "" : `${box.width - x + 10}px`;
      rule.hidden = tip.hidden = false;
    };
    drawing.addEventListener("pointermove", show);
    drawing.addEventListener("pointerdown", show);
    drawing.addEventListener("pointerleave", hide);
  }
})();
