"use strict";
// Filters of the heat map, and the browser of answers, which every table leads to. Texts reach the page through textContent
// alone, so that an answer which holds HTML is shown and never run.
(() => {
  const $ = (id) => document.getElementById(id);
  const element = (tag, className, ...children) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    for (const child of children) if (child !== null && child !== undefined) node.append(child);
    return node;
  };
  const minus = (text) => text.replace("-", "−");
  // Shares in per cent, and differences of them in points.
  const percent = (value) =>
    value === null || value === undefined ? "–" : `${minus((100 * value).toFixed(1))} %`;
  const points = (value) => {
    if (value === null || value === undefined) return "–";
    const text = (100 * value).toFixed(1);
    return Number(text) === 0 ? "0.0" : (value > 0 ? "+" : "") + minus(text);
  };
  const words = (text) => text.replaceAll("_", " ");
  const direction = (value) => (value > 0.005 ? "above" : value < -0.005 ? "below" : "");

  // Heat map
  function heat() {
    const maps = [...document.querySelectorAll(".heat-map")];
    if (!maps.length) return;
    const judge = $("heat-judge");
    const filter = $("heat-filter");
    const show = () => {
      const query = filter.value.trim().toLowerCase();
      let shown = 0;
      for (const map of maps) {
        map.hidden = Boolean(judge) && map.dataset.judge !== judge.value;
        for (const row of map.querySelector("tbody").rows) {
          row.hidden = !row.cells[0].textContent.toLowerCase().includes(query);
          if (!row.hidden && !map.hidden) shown += 1;
        }
      }
      $("heat-empty").hidden = shown > 0;
    };
    filter.form.hidden = false;
    filter.form.addEventListener("submit", (event) => event.preventDefault());
    filter.form.addEventListener("input", show);
    show();
  }

  // Browser of answers
  const data = JSON.parse($("data").textContent);
  const state = { set: null, entries: [], rows: [], id: null, at: [0, 0], note: "" };
  const { read: chosenByAddress, written, set } = window.address;
  const judge = () => (state.set.judges.length ? $("judge").value : "");
  const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);
  // The same model on both sides is shown once.
  const sides = () => [...new Set([$("left").value, $("right").value])];
  // Scores of an answer on the chosen criterion, which is an id or a kind.
  const scoresOf = (entry, answer) => {
    const name = $("criterion").value;
    const z = Object.entries(answer.scores[judge()]?.z ?? {});
    return z.filter(([id]) => id === name || entry.kinds?.[id] === name).map(([, value]) => value);
  };
  const meanOf = (entry, model) =>
    $("criterion").value
      ? mean((entry.answers[model] ?? []).flatMap((answer) => scoresOf(entry, answer)))
      : (entry.means[judge()]?.[model] ?? null);
  const means = (entry) => sides().map((model) => meanOf(entry, model));
  const gap = (entry) => {
    const [left, right = null] = means(entry);
    return left === null || right === null ? null : right - left;
  };
  const answersOf = (entry) => sides().flatMap((model) => entry.answers[model] ?? []);
  const failed = (answer) =>
    answer.text === null || (state.set.judges.length > 0 && answer.scores[judge()]?.reward == null) ||
    answer.answered === false || answer.scores[judge()]?.outcome === "invalid";

  const orders = {
    gap: (a, b) => Math.abs(gap(b) ?? -1) - Math.abs(gap(a) ?? -1),
    right: (a, b) => (gap(b) ?? -2) - (gap(a) ?? -2),
    left: (a, b) => (gap(a) ?? 2) - (gap(b) ?? 2),
    low: (a, b) => Math.max(...means(a).map((m) => m ?? 2)) - Math.max(...means(b).map((m) => m ?? 2)),
    long: (a, b) => longest(b) - longest(a),
  };
  const longest = (entry) =>
    Math.max(0, ...answersOf(entry).map((answer) => answer.tokens ?? (answer.text ?? "").length / 4));
  const filters = {
    all: () => true,
    right: (entry) => (gap(entry) ?? 0) > 0,
    left: (entry) => (gap(entry) ?? 0) < 0,
    zero: (entry) =>
      means(entry).some((value) => value === 0) ||
      answersOf(entry).some((answer) => answer.scores[judge()]?.reward === 0),
    failed: (entry) => answersOf(entry).some(failed),
    cut: (entry) => answersOf(entry).some((answer) => answer.finish === "truncated"),
  };

  function fill(select, values, label = (value) => value) {
    select.replaceChildren(...values.map((value) => new Option(label(value), value)));
  }

  function chooseSet() {
    fillSet();
    choose();
  }

  function fillSet() {
    state.set = data.sets[Number($("set").value)] ?? data.sets[0];
    state.entries = data.entries.filter((entry) => entry.set === state.set.name);
    const { models, judges, controls } = state.set;
    fill($("left"), [...models, ...controls]);
    fill($("right"), [...models, ...controls]);
    $("right").value = models[models.length - 1];
    fill($("judge"), judges);
    $("judge-label").hidden = judges.length < 2;
    const fields = [...new Set(state.entries.map((entry) => entry.field).filter(Boolean))].sort();
    $("field").replaceChildren(new Option("all", ""), ...fields.map((field) => new Option(field, field)));
    $("field-label").hidden = fields.length < 2;
    const criteria = criteriaOf(state.entries);
    $("criterion").replaceChildren(new Option("all", ""), ...criteria.map((name) => new Option(name, name)));
    $("criterion-label").hidden = criteria.length < 2;
    const some = `${state.set.shown.toLocaleString("en")} of ${state.set.total.toLocaleString("en")} questions`;
    const isAlone = models.length + controls.length < 2;
    $("right").parentElement.hidden = isAlone;
    const part = state.set.shown < state.set.total
      ? isAlone ? `The first ${some}` : `The ${some} on which models differ most`
      : state.set.total === 1 ? "The one question" : `All ${state.set.total.toLocaleString("en")} questions`;
    const most = Math.max(0, ...state.entries.flatMap((entry) => Object.values(entry.answers).map((all) => all.length)));
    const cut = most < state.set.answers ? `, ${most} of ${state.set.answers} answers to each` : "";
    const rest = state.set.shown < state.set.total || cut ? "; the evaluation’s folder holds them all" : "";
    const secret = state.set.unpublished
      ? " Their authors ask that they appear nowhere in plain text: do not publish this page."
      : "";
    $("caption").textContent = `${part}${cut}${rest}.${secret}`;
  }

  // Kinds, and the ids that most questions have; an address may name any other.
  function criteriaOf(entries) {
    const counts = new Map();
    const kinds = new Set();
    for (const entry of entries) {
      const ids = new Set(Object.values(entry.answers).flat().flatMap((answer) => Object.values(answer.scores)
        .flatMap((score) => Object.keys(score.z))));
      for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
      for (const id of ids) if (entry.kinds?.[id]) kinds.add(entry.kinds[id]);
    }
    const known = [...counts].sort(([, a], [, b]) => b - a).slice(0, 200).map(([id]) => id);
    return [...[...kinds].sort(), ...known.sort()];
  }

  function matches(entry, query) {
    if (!query) return true;
    const texts = [entry.id, entry.question, entry.target ?? "", ...answersOf(entry).map((answer) => answer.text ?? "")];
    return texts.some((text) => text.toLowerCase().includes(query));
  }

  function choose() {
    const query = $("search").value.trim().toLowerCase();
    const field = $("field").value;
    state.rows = state.entries
      .filter((entry) => !field || entry.field === field)
      .filter((entry) => !$("criterion").value || means(entry).some((value) => value !== null))
      .filter(filters[$("show").value])
      .filter((entry) => matches(entry, query))
      .sort(orders[$("sort").value]);
    if (!state.rows.some((row) => row.id === state.id)) {
      state.id = state.rows[0]?.id ?? null;
      state.at = [0, 0];
    }
    const noun = state.entries.length === 1 ? "question" : "questions";
    $("count").textContent = `${state.note}${state.rows.length} of ${state.entries.length} ${noun}`;
    state.note = "";
    showList();
    showDetail();
  }

  function item(entry) {
    const difference = gap(entry);
    const node = element(
      "div",
      "item",
      element(
        "div",
        "scores",
        element("span", "", means(entry).map(percent).join(" → ")),
        difference === null ? null : element("span", `gap ${direction(difference)}`, points(difference)),
      ),
      element("div", "text", entry.question.slice(0, 240)),
    );
    node.id = `item-${entry.id}`;
    node.setAttribute("role", "option");
    node.addEventListener("click", () => select(entry.id));
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
    const chosen = state.id === null ? null : $(`item-${state.id}`);
    if (!chosen) {
      $("list").removeAttribute("aria-activedescendant");
      return;
    }
    $("list").setAttribute("aria-activedescendant", chosen.id);
    const list = $("list");
    if (chosen.offsetTop < list.scrollTop) list.scrollTop = chosen.offsetTop;
    const below = chosen.offsetTop + chosen.offsetHeight - list.clientHeight;
    if (below > list.scrollTop) list.scrollTop = below;
  }

  function select(id) {
    state.id = id;
    state.at = [0, 0];
    markSelected();
    showDetail();
    $("detail").scrollTop = 0;
    writeAddress();
  }

  const filterNames = ["left", "right", "judge", "sort", "show", "field", "criterion"];

  // What is chosen, as an address that can be passed on.
  function writeAddress() {
    const parts = filterNames.map((name) => [name, $(name).value]).filter(([, value]) => value && value !== "all");
    const question = state.id === null ? [] : [["question", state.id]];
    history.replaceState(null, "", written([["set", state.set.name], ...parts, ...question]));
  }

  // Shows what the address names: `#set=heldout&right=grpo&criterion=…`, and says what is not here.
  function goToAddress() {
    const named = chosenByAddress();
    if (!named) return false;
    const missing = [];
    const place = data.sets.findIndex((one) => one.name === (named.get("set") ?? data.sets[0].name));
    if (place < 0) missing.push(named.get("set"));
    $("set").value = String(Math.max(place, 0));
    fillSet();
    $("search").value = "";
    $("sort").value = "gap";
    $("show").value = "all";
    for (const name of filterNames) {
      const value = named.get(name);
      if (value && !set($(name), value, { adds: name === "criterion" })) missing.push(value);
    }
    state.id = named.get("question");
    state.note = missing.length ? `Not on this page: ${missing.join(", ")}. ` : "";
    choose();
    $("answers").scrollIntoView();
    $("list").focus({ preventScroll: true });
    return true;
  }

  function about(answer) {
    const facts = [];
    if (answer.tokens !== null) facts.push(`${answer.tokens.toLocaleString("en")} tokens`);
    if (answer.stated) facts.push(`read as “${answer.stated}”`);
    const warnings = [];
    if (answer.text === null) warnings.push(`no answer: ${words(answer.why ?? "unknown")}`);
    if (answer.finish === "truncated") warnings.push("cut short");
    if (answer.finish === "refused") warnings.push("refused by a filter");
    if (answer.answered === false && answer.text !== null) warnings.push("no answer found in it");
    const score = answer.scores[judge()];
    if (score?.why) warnings.push(`judgement ${score.outcome}: ${words(score.why)}`);
    const line = element("p", "about", facts.join(", "));
    if (warnings.length) line.append(facts.length ? " · " : "", element("b", "", warnings.join(", ")));
    return line;
  }

  function scoreOf(answer) {
    if ("correct" in answer) return answer.correct === null ? "–" : answer.correct ? "right" : "wrong";
    return percent(answer.scores[judge()]?.reward);
  }

  function stepper(answers, side) {
    if (answers.length < 2) return null;
    const move = (by) => {
      state.at[side] = (state.at[side] + by + answers.length) % answers.length;
      showDetail();
      document.querySelectorAll(".side")[side].querySelectorAll(".stepper button")[by < 0 ? 0 : 1].focus();
    };
    const answer = answers[state.at[side]];
    const back = element("button", "", "‹");
    const on = element("button", "", "›");
    for (const [button, by, label] of [[back, -1, "Answer before"], [on, 1, "Answer after"]]) {
      button.type = "button";
      button.setAttribute("aria-label", label);
      button.addEventListener("click", () => move(by));
    }
    const place = `answer ${state.at[side] + 1} of ${answers.length}, seed ${answer.seed}, sample ${answer.sample}`;
    return element("div", "stepper", back, on, element("span", "", place));
  }

  function sideView(entry, model, side) {
    const answers = entry.answers[model] ?? [];
    const answer = answers[state.at[side]] ?? null;
    const head = element("header", "", element("span", "who", model));
    const node = element("div", "side", head);
    node.style.setProperty("--mark", `var(--m${(state.set.models.indexOf(model) % 8) + 1})`);
    if (!answer) {
      node.append(element("p", "empty", "No answer is in the folder."));
      return node;
    }
    head.append(element("span", "score", scoreOf(answer)));
    node.append(about(answer));
    const steps = stepper(answers, side);
    if (steps) node.append(steps);
    if (answer.text !== null) {
      const text = element("p", answer.text ? "response" : "response empty", answer.text || "(empty answer)");
      text.dir = "auto";
      text.tabIndex = 0;
      text.setAttribute("role", "region");
      text.setAttribute("aria-label", `Answer of ${model}`);
      node.append(text);
    }
    const reasons = answer.reasons?.[judge()];
    if (reasons) {
      const words_ = element("p", "reasoning", reasons);
      words_.dir = "auto";
      node.append(element("h3", "", `Reasons of ${judge()}`), words_);
    }
    return node;
  }

  function heading(text, scope, note = "") {
    const cell = element("th");
    // A line may break after an underscore, so that long ids fit a phone.
    text.split(/(?<=_)/).forEach((piece, at) => cell.append(...(at ? [element("wbr"), piece] : [piece])));
    if (note) cell.append(element("small", "", note));
    cell.scope = scope;
    return cell;
  }

  function zCell(z) {
    const cell = element("td", "z", percent(z));
    cell.style.setProperty("--z", String(z ?? 0));
    return cell;
  }

  function criteriaTable(entry) {
    const scores = sides().map((model, side) => entry.answers[model]?.[state.at[side]]?.scores[judge()]?.z ?? {});
    const names = [...new Set(scores.flatMap((z) => Object.keys(z)))];
    if (!names.length) return null;
    const isPair = scores.length > 1;
    const texts = new Map((entry.rubric ?? []).map((criterion) => [criterion.id, criterion]));
    const rows = names.map((name) => {
      const shares = scores.map((z) => z[name] ?? null);
      const difference = shares.includes(null) ? null : shares[1] - shares[0];
      const criterion = texts.get(name);
      return element(
        "tr",
        "",
        heading(name, "row", criterion ? `weight ${criterion.weight}. ${criterion.text}` : (entry.kinds?.[name] ?? "")),
        ...shares.map(zCell),
        isPair ? element("td", direction(difference), points(difference)) : null,
      );
    });
    const titles = ["Criterion, share earned", ...sides(), ...(isPair ? ["Difference"] : [])];
    const head = titles.map((text) => heading(text, "col"));
    return element(
      "table",
      "criteria",
      element("thead", "", element("tr", "", ...head)),
      element("tbody", "", ...rows),
    );
  }

  function fact(name, value) {
    return value ? element("div", "", element("dt", "", name), element("dd", "", value)) : null;
  }

  function showDetail() {
    const entry = state.rows.find((candidate) => candidate.id === state.id);
    if (!entry) {
      $("detail").replaceChildren(element("p", "empty", "No question matches."));
      return;
    }
    const asked = element("p", "asked", entry.question);
    asked.dir = "auto";
    const parts = [
      asked,
      entry.target ? element("p", "target", "Right answer: ", element("b", "", entry.target)) : null,
      element("div", "pair", ...sides().map((model, side) => sideView(entry, model, side))),
      criteriaTable(entry),
    ];
    if (entry.passage) {
      const passage = element("p", "passage", entry.passage);
      passage.dir = "auto";
      parts.push(element("details", "", element("summary", "", "Passage, which only the judge saw"), passage));
    }
    parts.push(
      element("dl", "facts", fact("Question", entry.id), fact("Field", entry.field), fact("Document", entry.document)),
    );
    $("detail").replaceChildren(...parts.filter(Boolean));
  }

  function move(event) {
    const at = state.rows.findIndex((row) => row.id === state.id);
    const last = state.rows.length - 1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last, PageDown: at + 10, PageUp: at - 10 }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    select(state.rows[Math.min(Math.max(to, 0), last)].id);
  }

  heat();
  if (!data.sets.length) return;
  fill($("set"), data.sets.map((_, at) => String(at)), (at) => data.sets[Number(at)].title);
  $("set-label").hidden = data.sets.length < 2;
  $("controls").hidden = $("browser").hidden = false;
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("set").addEventListener("change", chooseSet);
  for (const id of filterNames) $(id).addEventListener("change", choose);
  $("controls").addEventListener("change", (event) => event.target.id !== "search" && writeAddress());
  window.addEventListener("hashchange", goToAddress);
  $("search").addEventListener("input", choose);
  $("list").addEventListener("keydown", move);
  if (!goToAddress()) chooseSet();
})();
