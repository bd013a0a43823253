"use strict";
// Reads the charts out: the values of the step under the pointer, beside a rule at that step. A click
// leads to the samples of the series that is nearest; so does the link below, whose step and series
// the arrow keys change.
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

  // The series whose point, or layer, is nearest to a value at a step.
  function nearestSeries(chart, step, value) {
    let floor = 0;
    let best = null;
    for (const series of chart.series) {
      const at = series.steps.indexOf(step);
      if (at < 0 || !series.link) continue;
      const height = series.values[at] ?? 0;
      const from = series.layer ? floor : height;
      if (series.layer) floor += height;
      const to = series.layer ? floor : height;
      const gap = Math.max(from - value, value - to, 0);
      if (!best || gap < best.gap) best = { gap, series };
    }
    return best?.series ?? null;
  }
  const addressOf = (series, step) => series.link.replace("{step}", step);

  for (const drawing of document.querySelectorAll(".drawing[data-chart]")) {
    const chart = charts[drawing.dataset.chart];
    const steps = [...new Set(chart.series.flatMap((series) => series.steps))].sort((a, b) => a - b);
    const rule = make("i", "rule");
    const tip = make("div", "tip");
    rule.hidden = tip.hidden = true;
    drawing.append(rule, tip);
    const leading = chart.series.filter((series) => series.link && series.steps.length);
    drawing.classList.toggle("leads", leading.length > 0);

    const hide = () => {
      rule.hidden = tip.hidden = true;
    };
    const scaleOf = (box) => box.width / drawing.firstElementChild.viewBox.baseVal.width;
    function showStep(step, chosen) {
      const box = drawing.getBoundingClientRect();
      const left = chart.left * scaleOf(box);
      const width = box.width - left - chart.right * scaleOf(box);
      const x = left + (width * (step - chart.low)) / (chart.high - chart.low);
      const rows = [];
      for (const series of chart.series) {
        const at = series.steps.indexOf(step);
        if (at < 0) continue;
        const row = make("div", series === chosen && leading.length > 1 ? "chosen" : "");
        const swatch = make("i", "swatch");
        swatch.style.background = `var(--${series.role})`;
        row.append(swatch, make("span", "", series.label), make("b", "", shown(series.values[at], chart.share)));
        rows.push(row);
      }
      tip.replaceChildren(make("small", "", `step ${step}${chosen ? ", a click shows its responses" : ""}`), ...rows);
      rule.style.left = `${x}px`;
      tip.style.left = x < box.width / 2 ? `${x + 10}px` : "";
      tip.style.right = x < box.width / 2 ? "" : `${box.width - x + 10}px`;
      rule.hidden = tip.hidden = false;
    }
    function under(event) {
      const box = drawing.getBoundingClientRect();
      const scale = scaleOf(box);
      const width = box.width - (chart.left + chart.right) * scale;
      const across = (event.clientX - box.left - chart.left * scale) / width;
      const step = nearest(steps, chart.low + across * (chart.high - chart.low));
      const svg = drawing.firstElementChild.getBoundingClientRect();
      const tall = svg.height - (chart.top + chart.bottom) * scale;
      const up = (svg.bottom - chart.bottom * scale - event.clientY) / tall;
      return [step, nearestSeries(chart, step, chart.base + up * (chart.peak - chart.base))];
    }
    const show = (event) => showStep(...under(event));
    drawing.addEventListener("pointermove", show);
    drawing.addEventListener("pointerdown", show);
    drawing.addEventListener("pointerleave", hide);
    drawing.addEventListener("click", (event) => {
      const [step, series] = under(event);
      if (series) location.href = addressOf(series, step);
    });

    const link = drawing.parentElement.querySelector(`a[data-for="${drawing.dataset.chart}"]`);
    if (!link) continue;
    const state = { series: leading[0], step: leading[0].steps.at(-1) };
    const isShown = () => drawing.offsetParent !== null;
    function move(event) {
      const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!by || !isShown()) return;
      event.preventDefault();
      const count = leading.length;
      state.series = leading[(leading.indexOf(state.series) + by[1] + count) % count];
      const own = state.series.steps;
      const at = own.indexOf(nearest(own, state.step)) + by[0];
      state.step = own[Math.min(Math.max(at, 0), own.length - 1)];
      const which = count > 1 ? `, ${state.series.label}` : "";
      link.href = addressOf(state.series, state.step);
      link.textContent = `Responses of step ${state.step}${which}`;
      link.setAttribute("aria-label", `${drawing.getAttribute("aria-label") ?? ""}: ${link.textContent}`);
      showStep(state.step, state.series);
    }
    link.addEventListener("keydown", move);
    link.addEventListener("focus", () => isShown() && link.matches(":focus-visible") && showStep(state.step, state.series));
    link.addEventListener("blur", hide);
  }
})();
