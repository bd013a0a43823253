"use strict";
// Browser of rollouts. Text reaches the page through textContent alone, so that a response which
// holds HTML is shown and never run. The judge's data is read in judgeView, and where responses are
// chosen by a criterion.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const $ = (id) => document.getElementById(id);
  const data = read("policy-data");
  if (!$("browser")) return;

  const ALL = -1;
  for (const step of data.steps) for (const row of step.rows) row.step = step.step;
  const { names, kinds } = read("criteria-data");
  const { read: chosenByAddress, written, set } = window.address;
  const state = { step: data.steps.length - 1, prompt: "all", id: null, rows: [], note: "" };
  let judgements = null;
  const judgementOf = (row) => (judgements ??= read("judge-data"))[row.id];
  let grounding = null;

  const element = (tag, className, ...children) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    for (const child of children) if (child !== null) node.append(child);
    return node;
  };
  const minus = (text) => text.replace("-", "−");
  const number = (value, digits = 3) => (value === null ? "–" : minus(value.toFixed(digits)));
  const percent = (value) => (value === null ? "–" : `${minus((100 * value).toFixed(1))} %`);
  const signed = (value, digits = 3) =>
    value === null ? "–" : (value > 0 ? "+" : "") + minus(value.toFixed(digits));
  const shortened = (text, size) => (text.length > size ? text.slice(0, size - 1) + "…" : text);
  const rowsOfStep = () =>
    state.step === ALL ? data.steps.flatMap((step) => step.rows) : data.steps[state.step].rows;

  const orders = {
    "reward-down": (a, b) => (b.reward ?? -1) - (a.reward ?? -1),
    "reward-up": (a, b) => (a.reward ?? 2) - (b.reward ?? 2),
    "advantage-down": (a, b) => b.advantage - a.advantage,
    "advantage-up": (a, b) => a.advantage - b.advantage,
    "tokens-down": (a, b) => b.tokens - a.tokens,
    order: () => 0,
  };

  // Scores on the chosen criterion, or on all; a criterion is named by its id or by its kind.
  function scores(row) {
    const name = $("criterion").value;
    const all = judgementOf(row)?.criteria ?? [];
    const named = all.filter(([id]) => !name || id === name || kinds[row.task]?.[id] === name);
    return named.map(([, z]) => z).filter((z) => z !== null);
  }
  const answerOf = (row) => row.answer ?? row.response;

  const outcomes = {
    all: () => true,
    met: (row) => scores(row).some((z) => z >= 1),
    part: (row) => scores(row).some((z) => z > 0 && z < 1),
    unmet: (row) => scores(row).some((z) => z === 0),
    rewarded: (row) => row.reward > 0,
    unrewarded: (row) => row.reward === 0,
    zero: (row) => row.reward === 0 && row.outcome === "scored",
    invalid: (row) => row.outcome === "invalid",
    unavailable: (row) => row.outcome === "unavailable",
    cut: (row) => !row.ended || row.thought === "unclosed",
    empty: (row) => !answerOf(row).trim() && row.thought !== "unclosed",
    thought: (row) => row.thought !== undefined,
    unclosed: (row) => row.thought === "unclosed",
  };

  function fillSteps() {
    $("step").append(new Option("all", String(ALL)));
    data.steps.forEach((step, index) => {
      const part = step.rows.length < step.total ? ` (${step.rows.length} of ${step.total})` : "";
      $("step").append(new Option(`${step.step}${part}`, String(index)));
    });
  }

  function fillPrompts() {
    const groups = new Map();
    for (const row of rowsOfStep()) {
      if (!groups.has(row.prompt)) groups.set(row.prompt, []);
      if (row.reward !== null) groups.get(row.prompt).push(row.reward);
    }
    const options = [new Option(`all ${groups.size}`, "all")];
    for (const [prompt, rewards] of groups) {
      const mean = rewards.length ? rewards.reduce((a, b) => a + b, 0) / rewards.length : null;
      options.push(
        new Option(`${percent(mean)}  ${shortened(data.prompts[prompt], 90)}`, String(prompt)),
      );
    }
    $("prompt").replaceChildren(...options);
    if (!groups.has(Number(state.prompt))) state.prompt = "all";
    $("prompt").value = state.prompt;
  }

  function choose() {
    const query = $("search").value.trim().toLowerCase();
    state.rows = rowsOfStep()
      .filter((row) => state.prompt === "all" || row.prompt === Number(state.prompt))
      .filter((row) => !$("criterion").value || scores(row).length)
      .filter(outcomes[$("outcome").value])
      .filter(
        (row) =>
          !query ||
          row.response.toLowerCase().includes(query) ||
          row.id === query ||
          data.prompts[row.prompt].toLowerCase().includes(query),
      )
      .sort(orders[$("sort").value]);
    if (!state.rows.some((row) => row.id === state.id)) state.id = state.rows[0]?.id ?? null;
    const noun = state.rows.length === 1 ? "response" : "responses";
    const where = state.step === ALL ? "all steps shown here" : `step ${data.steps[state.step].step}`;
    $("count").textContent = `${state.note}${state.rows.length} ${noun} of ${where}`;
    state.note = "";
    showList();
    showDetail();
  }

  function item(row) {
    const bar = element("i", "bar");
    bar.style.setProperty("--share", `${100 * (row.reward ?? 0)}%`);
    const node = element(
      "div",
      "item",
      element("span", "reward", percent(row.reward)),
      bar,
      element("span", "advantage", `${signed(row.advantage, 2)}${state.step === ALL ? ` · ${row.step}` : ""}`),
      element("span", "text", shortened(row.response.trim(), 140) || "(empty response)"),
    );
    node.id = `item-${row.id}`;
    node.setAttribute("role", "option");
    node.setAttribute("aria-selected", String(row.id === state.id));
    node.addEventListener("click", () => select(row.id));
    return node;
  }

  function showList() {
    $("list").replaceChildren(...state.rows.map(item));
    markSelected();
  }

  function markSelected() {
    for (const node of $("list").children) {
      node.setAttribute("aria-selected", String(node.id === `item-${state.id}`));
    }
    const chosen = $(`item-${state.id}`);
    if (!chosen) {
      $("list").removeAttribute("aria-activedescendant");
      return;
    }
    $("list").setAttribute("aria-activedescendant", chosen.id);
    const list = $("list");
    const top = chosen.offsetTop - list.offsetTop;
    if (top < list.scrollTop) list.scrollTop = top;
    const below = top + chosen.offsetHeight - list.clientHeight;
    if (below > list.scrollTop) list.scrollTop = below;
  }

  function select(id) {
    state.id = id;
    markSelected();
    showDetail();
    history.replaceState(null, "", `#${id}`);
  }

  // The address of one response: a link that is passed on opens the page there.
  function link(row) {
    const node = element("a", "", row.id);
    node.href = `#${row.id}`;
    return node;
  }

  function fact(name, value) {
    return element("div", "", element("dt", "", name), element("dd", "", value));
  }

  function policyView(row) {
    const response = element("p", "response", row.response || "(empty response)");
    if (!row.response) response.classList.add("empty");
    // Left out of a row whose response has no thought.
    const judged =
      row.thought === undefined
        ? []
        : [
            element("h3", "", "What of it was judged"),
            element("p", row.answer ? "response" : "response empty", row.answer || "(no answer)"),
          ];
    return [
      element("h3", "", "Prompt"),
      element("p", "asked", data.prompts[row.prompt]),
      element("h3", "", "Response"),
      response,
      ...judged,
      element(
        "dl",
        "facts",
        fact("Reward", row.reward === null ? "left out" : percent(row.reward)),
        fact("Advantage", signed(row.advantage)),
        fact("Tokens", `${row.tokens}${row.ended ? "" : ", cut off"}`),
        fact("Step", String(row.step)),
        fact("Response", link(row)),
        fact("Task", row.task),
      ),
    ];
  }

  function zCell(z) {
    const cell = element("td", "z", element("span", "", percent(z)));
    cell.style.setProperty("--z", String(z ?? 0));
    return cell;
  }

  function partCells(value, reach) {
    const bar = element("i", value < 0 ? "below" : "above");
    bar.style.setProperty("--length", `${(50 * Math.abs(value ?? 0)) / reach}%`);
    return [element("td", "part", bar), element("td", "", signed(value))];
  }

  function heading(text, scope, span = 1) {
    const cell = element("th");
    // A line may break after an underscore, so that long ids fit a phone.
    text.split(/(?<=_)/).forEach((piece, at) => cell.append(...(at ? [element("wbr"), piece] : [piece])));
    cell.scope = scope;
    cell.colSpan = span;
    return cell;
  }

  // What a criterion asks for and what the response lacks, across the table below its numbers.
  function description(criterion, missing) {
    if (!criterion && !missing?.length) return [];
    const cell = element("td", "", criterion?.text ?? "");
    if (missing?.length) cell.append(" ", element("span", "missing", `Missing: ${missing.join(" · ")}`));
    cell.colSpan = 5;
    return [element("tr", "about", cell)];
  }

  function criteriaTable(row, judgement, known) {
    const reach = Math.max(1e-9, ...judgement.criteria.map((entry) => Math.abs(entry[3] ?? 0)));
    const head = [
      heading("Criterion", "col"),
      heading("z", "col"),
      heading("Share α", "col"),
      heading("Part of the advantage", "colgroup", 2),
    ];
    const texts = new Map((known?.rubric ?? []).map((criterion) => [criterion.id, criterion]));
    const body = judgement.criteria.flatMap(([name, z, share, part, missing]) => [
      element(
        "tr",
        "",
        heading(name, "row"),
        zCell(z),
        element("td", "", percent(share)),
        ...partCells(part, reach),
      ),
      ...description(texts.get(name), missing),
    ]);
    const foot = element(
      "tr",
      "",
      heading("Reward, advantage", "row"),
      element("td", "z", percent(row.reward)),
      element("td", "", ""),
      element("td", "part", ""),
      element("td", "", signed(row.advantage)),
    );
    return element(
      "table",
      "criteria",
      element("thead", "", element("tr", "", ...head)),
      element("tbody", "", ...body),
      element("tfoot", "", foot),
    );
  }

  function passage(text) {
    const title = element("summary", "", "Passage, which only the judge saw");
    return element("details", "", title, element("p", "passage", text));
  }

  function judgeView(row) {
    const judgement = judgementOf(row);
    grounding ??= $("grounding-data") ? read("grounding-data") : {};
    const known = grounding[row.task];
    if (!judgement) return [element("p", "empty", "No judgement of this response is in the run folder.")];
    const outcome = judgement.reason
      ? `${judgement.outcome}: ${judgement.reason.replaceAll("_", " ")}`
      : judgement.outcome;
    return [
      element(
        "dl",
        "facts",
        fact("Outcome", outcome),
        fact("Judge", judgement.judge || "–"),
        judgement.detail ? fact("Detail", judgement.detail) : null,
      ),
      judgement.criteria.length ? criteriaTable(row, judgement, known) : null,
      judgement.reasoning ? element("h3", "", "Reasoning of the judge") : null,
      judgement.reasoning ? element("p", "reasoning", judgement.reasoning) : null,
      known ? passage(known.passage) : null,
    ].filter(Boolean);
  }

  function showDetail() {
    const row = state.rows.find((candidate) => candidate.id === state.id);
    const nothing = () => [element("p", "empty", "No response matches.")];
    $("policy-view").replaceChildren(...(row ? policyView(row) : nothing()));
    const open = !$("judge-view").hidden;
    $("judge-view").replaceChildren(...(open ? (row ? judgeView(row) : nothing()) : []));
  }

  function showTab(name) {
    for (const tab of ["policy", "judge"]) {
      const chosen = tab === name;
      $(`tab-${tab}`).setAttribute("aria-selected", String(chosen));
      $(`tab-${tab}`).tabIndex = chosen ? 0 : -1;
      $(`${tab}-view`).hidden = !chosen;
    }
    showDetail();
  }

  function goToStep(index) {
    state.step = Math.min(Math.max(index, ALL), data.steps.length - 1);
    $("step").value = String(state.step);
    $("step-back").disabled = state.step <= 0;
    $("step-on").disabled = state.step === data.steps.length - 1;
    fillPrompts();
    choose();
  }

  function move(event) {
    const at = state.rows.findIndex((row) => row.id === state.id);
    const last = state.rows.length - 1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last, PageDown: at + 10, PageUp: at - 10 }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    select(state.rows[Math.min(Math.max(to, 0), last)].id);
  }

  // The step of that number, or the nearest that is on the page.
  function placeOf(number) {
    const numbers = data.steps.map((step) => step.step);
    const gaps = numbers.map((step) => Math.abs(step - number));
    return gaps.indexOf(Math.min(...gaps));
  }

  // Shows what the address names: `#step=…&outcome=…&criterion=…`, or one response, and says where
  // that is not on the page.
  function goToAddress() {
    const chosen = chosenByAddress();
    const id = decodeURIComponent(location.hash.slice(1));
    if (chosen) showChosen(chosen);
    else if (/^s\d+-p\d+-g\d+$/.test(id)) showResponse(id);
    else return;
    $("rollouts").scrollIntoView();
    $("list").focus({ preventScroll: true });
  }

  function showChosen(chosen) {
    $("search").value = $("criterion").value = "";
    $("outcome").value = state.prompt = "all";
    set($("criterion"), chosen.get("criterion") ?? "", { adds: true });
    set($("outcome"), chosen.get("outcome") ?? "all");
    set($("sort"), chosen.get("sort") ?? "reward-down");
    const number = chosen.get("step");
    const place = number === null ? ALL : placeOf(Number(number));
    const nearest = data.steps[place]?.step;
    if (number !== null && nearest !== Number(number))
      state.note = `Step ${number} is not on this page, the nearest is ${nearest}: `;
    goToStep(place);
  }

  function showResponse(id) {
    const step = data.steps.findIndex((candidate) => candidate.rows.some((row) => row.id === id));
    if (step < 0) {
      $("count").textContent = `${id} is not on this page; the run folder holds all responses.`;
      return;
    }
    $("search").value = $("criterion").value = "";
    $("outcome").value = state.prompt = "all";
    state.id = id;
    goToStep(step);
  }

  // What is chosen, as an address that can be passed on.
  function writeAddress() {
    const step = state.step === ALL ? "" : String(data.steps[state.step].step);
    const parts = [["step", step], ["criterion", $("criterion").value], ["outcome", $("outcome").value], ["sort", $("sort").value]];
    history.replaceState(null, "", written(parts.filter(([, value]) => value && value !== "all")) || "#");
  }

  fillSteps();
  $("criterion").replaceChildren(new Option("all", ""), ...names.map((name) => new Option(name, name)));
  $("controls").hidden = $("browser").hidden = false;
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("step").addEventListener("change", () => goToStep(Number($("step").value)));
  $("step-back").addEventListener("click", () => goToStep(state.step - 1));
  $("step-on").addEventListener("click", () => goToStep(state.step + 1));
  $("prompt").addEventListener("change", () => {
    state.prompt = $("prompt").value;
    choose();
  });
  for (const name of ["sort", "outcome", "criterion"]) $(name).addEventListener("change", choose);
  $("controls").addEventListener("change", (event) => event.target.id !== "search" && writeAddress());
  // What is looked for may be in any step.
  $("search").addEventListener("input", () =>
    $("search").value && state.step !== ALL ? goToStep(ALL) : choose(),
  );
  $("list").addEventListener("keydown", move);
  for (const [name, other] of [["policy", "judge"], ["judge", "policy"]]) {
    $(`tab-${name}`).addEventListener("click", () => showTab(name));
    $(`tab-${name}`).addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      showTab(other);
      $(`tab-${other}`).focus();
    });
  }
  goToStep(state.step);
  window.addEventListener("hashchange", goToAddress);
  goToAddress();
})();
