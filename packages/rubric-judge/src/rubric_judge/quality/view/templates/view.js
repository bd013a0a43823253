"use strict";
// Viewer of judgements. Text reaches the page through textContent alone, so that an answer which
// holds HTML is shown and never run. Of the list only the rows in sight are in the document.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("view-data").textContent);
  const { columns, tasks, samples, met } = data;
  const { read: chosenByAddress, written, set } = window.address;
  const several = columns.length > 1;
  const raters = [...new Set(samples.flatMap((one) => Object.values(one.h ?? {}).flatMap(Object.keys)))];
  const state = { criterion: "", kind: "", id: null, rows: [] };
  const byName = new Map(samples.map((one, at) => [one.n, (one.at = at, one)]));

  const element = (tag, className, ...children) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    for (const child of children) if (child !== null) node.append(child);
    return node;
  };
  const known = (value) => value !== null && value !== undefined;
  const percent = (value) => {
    if (!known(value)) return "–";
    const isWhole = Math.abs(100 * value - Math.round(100 * value)) < 1e-6;
    return `${(100 * value).toFixed(isWhole ? 0 : 1)} %`;
  };
  const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);
  const shortened = (text, size) => (text.length > size ? text.slice(0, size - 1) + "…" : text);
  const countOf = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

  // The criteria in question: all of a sample, or those of the chosen id and kind.
  const isChosen = ([id, kind]) =>
    (!state.criterion || id === state.criterion || kind === state.criterion) && (!state.kind || kind === state.kind);
  const hasChoice = () => Boolean(state.criterion || state.kind);
  const chosenOf = tasks.map(() => null);
  function criteriaOf(sample) {
    return (chosenOf[sample.t] ??= tasks[sample.t].c.flatMap((one, at) => (isChosen(one) ? [at] : [])));
  }
  const peopleZ = (sample, at) => mean(Object.values(sample.h?.[at] ?? {}));
  const scoresOf = (sample, at) => sample.v.map((one) => (one ? one.z[at] : undefined)).filter(known);
  const allScores = (sample) => criteriaOf(sample).flatMap((at) => scoresOf(sample, at));
  const isSplit = (calls) => calls.includes(true) && calls.includes(false);
  const callsOf = (sample, at) => scoresOf(sample, at).map((z) => z >= met);
  const raterCalls = (sample, at) => Object.values(sample.h?.[at] ?? {}).map((z) => z >= met);
  // Whether people call a criterion met; null where as many do as do not.
  function peopleSay(sample, at) {
    const calls = raterCalls(sample, at);
    const yes = calls.filter(Boolean).length;
    return 2 * yes === calls.length ? null : 2 * yes > calls.length;
  }
  const allCalls = (sample, at) => [...callsOf(sample, at), peopleSay(sample, at)];
  const spread = (scores) => (scores.length > 1 ? Math.max(...scores) - Math.min(...scores) : -1);
  function withPeople(sample, at) {
    const people = peopleZ(sample, at);
    return people === null ? scoresOf(sample, at) : [...scoresOf(sample, at), people];
  }
  const reward = (sample) => mean(sample.v.flatMap((one) => (one && known(one.r) ? [one.r] : [])));

  const differs = {
    all: () => true,
    any: (sample) => criteriaOf(sample).some((at) => isSplit(allCalls(sample, at))),
    judges: (sample) => criteriaOf(sample).some((at) => isSplit(callsOf(sample, at))),
    people: (sample) => differs.lenient(sample) || differs.strict(sample),
    lenient: (sample) =>
      criteriaOf(sample).some((at) => peopleSay(sample, at) === false && callsOf(sample, at).includes(true)),
    strict: (sample) =>
      criteriaOf(sample).some((at) => peopleSay(sample, at) === true && callsOf(sample, at).includes(false)),
    raters: (sample) => criteriaOf(sample).some((at) => isSplit(raterCalls(sample, at))),
    one: (sample) => sample.v.some((one) => !one),
  };
  const outcomes = {
    all: () => true,
    met: (sample) => allScores(sample).some((z) => z >= 1),
    part: (sample) => allScores(sample).some((z) => z > 0 && z < 1),
    unmet: (sample) => allScores(sample).some((z) => z === 0),
    scored: (sample) => sample.v.some((one) => one && one.o === "scored"),
    invalid: (sample) => sample.v.some((one) => one && one.o === "invalid"),
    unavailable: (sample) => sample.v.some((one) => one && one.o === "unavailable"),
  };
  const longest = (sample) => Math.max(...sample.r.map((text) => text.length));
  const gap = (sample) => Math.max(-1, ...criteriaOf(sample).map((at) => spread(withPeople(sample, at))));
  // What a sample is sorted by; samples without it come last.
  const orders = {
    order: null,
    "reward-up": [reward, 1],
    "reward-down": [reward, -1],
    "score-up": [(sample) => mean(allScores(sample)), 1],
    "score-down": [(sample) => mean(allScores(sample)), -1],
    gap: [gap, -1],
    long: [longest, -1],
    task: [(sample) => sample.t, 1],
  };

  function sorted(rows) {
    const order = orders[$("sort").value];
    if (!order) return rows;
    const [value, sign] = order;
    const keyed = rows.map((row) => [value(row), row]);
    keyed.sort(([a], [b]) => (known(a) && known(b) ? sign * (a - b) : known(a) ? -1 : known(b) ? 1 : 0));
    return keyed.map(([, row]) => row);
  }

  function contains(sample, query) {
    const task = tasks[sample.t];
    return (
      sample.n === query ||
      task.id.toLowerCase().includes(query) ||
      task.q.toLowerCase().includes(query) ||
      sample.r.some((text) => text.toLowerCase().includes(query)) ||
      sample.v.some((one) => one && one.t && one.t.toLowerCase().includes(query))
    );
  }

  // Shows the chosen samples: the first of them, or the one before where it is kept.
  function choose(keeps = false) {
    state.criterion = $("criterion").value;
    state.kind = $("kind").value;
    chosenOf.fill(null);
    const query = $("search").value.trim().toLowerCase();
    const part = $("part")?.value ?? "";
    const outcome = outcomes[$("outcome").value];
    const differ = differs[$("differ").value];
    const rows = samples.filter(
      (sample) =>
        (!hasChoice() || criteriaOf(sample).length) &&
        (!part || sample.p === part) &&
        outcome(sample) &&
        differ(sample) &&
        (!query || contains(sample, query)),
    );
    state.rows = sorted(rows);
    if (!keeps || !state.rows.some((row) => row.n === state.id)) state.id = state.rows[0]?.n ?? null;
    const all = state.rows.length === samples.length;
    $("count").textContent = all
      ? countOf(samples.length, "sample")
      : `${state.rows.length.toLocaleString("en")} of ${countOf(samples.length, "sample")}`;
    $("clear").hidden = all;
    $("rows").style.height = `${state.rows.length * height()}px`;
    $("list").scrollTop = 0;
    showSelected();
    showDetail();
  }

  // The list: rows of one height, of which those in sight are made.
  let itemHeight = 0;
  function height() {
    if (itemHeight) return itemHeight;
    const probe = element("div", "item");
    $("rows").append(probe);
    itemHeight = probe.offsetHeight || 68;
    probe.remove();
    return itemHeight;
  }

  // The labels of a response as a reward: over the weight of what is labelled.
  function peopleReward(row, chosen) {
    const all = tasks[row.t].c;
    const labelled = (chosen ?? all.map((_, c) => c)).filter((c) => peopleZ(row, c) !== null);
    const weight = (c) => (chosen ? 1 : (all[c][2] ?? 0));
    const total = labelled.reduce((sum, c) => sum + weight(c), 0);
    return total ? labelled.reduce((sum, c) => sum + weight(c) * peopleZ(row, c), 0) / total : null;
  }

  function item(row, at) {
    const scores = element("span", "scores");
    const zs = hasChoice() ? criteriaOf(row) : null;
    row.v.forEach((one) => {
      const value = !one ? null : zs ? mean(zs.map((c) => one.z[c]).filter(known)) : one.r;
      const text = one && one.o !== "scored" ? one.o : percent(value);
      scores.append(element("b", "", text));
    });
    const people = peopleReward(row, zs);
    if (people !== null) scores.append(element("b", "person", percent(people)));
    const node = element(
      "div",
      "item",
      scores,
      element(
        "span",
        "words",
        element("span", "text", shortened(row.r[0].trim(), 160) || "(empty answer)"),
        element("span", "where", [row.p, tasks[row.t].q.trim()].filter(Boolean).join(" · ").slice(0, 120)),
      ),
    );
    if (several || row.h) node.classList.toggle("differs", differs.any(row));
    node.id = `row-${row.n}`;
    node.style.top = `${at * height()}px`;
    node.setAttribute("role", "option");
    node.setAttribute("aria-selected", String(row.n === state.id));
    node.setAttribute("aria-setsize", String(state.rows.length));
    node.setAttribute("aria-posinset", String(at + 1));
    node.addEventListener("click", () => select(row.n));
    return node;
  }

  function showRows() {
    const list = $("list");
    const first = Math.max(0, Math.floor(list.scrollTop / height()) - 4);
    const last = Math.min(state.rows.length, Math.ceil((list.scrollTop + list.clientHeight) / height()) + 4);
    $("rows").replaceChildren(...state.rows.slice(first, last).map((row, at) => item(row, first + at)));
    const chosen = state.id && $(`row-${state.id}`);
    if (chosen) list.setAttribute("aria-activedescendant", chosen.id);
    else list.removeAttribute("aria-activedescendant");
  }

  function showSelected() {
    const at = state.rows.findIndex((row) => row.n === state.id);
    const list = $("list");
    const top = at * height();
    if (at >= 0 && top < list.scrollTop) list.scrollTop = top;
    if (at >= 0 && top + height() > list.scrollTop + list.clientHeight)
      list.scrollTop = top + height() - list.clientHeight;
    showRows();
  }

  const choices = () => {
    const parts = [];
    for (const name of ["criterion", "kind", "outcome", "differ", "part", "sort"]) {
      const value = $(name)?.value;
      if (value && value !== "all" && value !== "order") parts.push([name, value]);
    }
    return parts;
  };
  const address = (...more) => written([...choices(), ...more]);

  function select(id) {
    state.id = id;
    showSelected();
    showDetail();
    history.replaceState(null, "", address(["sample", id]));
  }

  function step(by) {
    const at = state.rows.findIndex((row) => row.n === state.id);
    const row = state.rows[Math.min(Math.max(at + by, 0), state.rows.length - 1)];
    if (row) select(row.n);
  }

  const fact = (name, value) => element("div", "", element("dt", "", name), element("dd", "", value));
  const judgeName = ([source, judge]) =>
    new Set(columns.map((one) => one[1])).size === columns.length ? judge || "judge" : `${judge || "judge"} in ${source}`;

  function heading(text, scope, note = "") {
    const cell = element("th");
    text.split(/(?<=[_./-])/).forEach((piece, at) => cell.append(...(at ? [element("wbr"), piece] : [piece])));
    if (note) cell.append(element("small", "", note));
    cell.scope = scope;
    return cell;
  }

  function zCell(z, note = "") {
    const cell = element("td", "z", element("span", "", percent(z)), note ? element("small", "", note) : null);
    cell.style.setProperty("--z", String(z ?? 0));
    return cell;
  }

  function about(sample, at, text, span) {
    const cell = element("td");
    cell.colSpan = span;
    if (text) cell.append(text);
    sample.v.forEach((one, column) => {
      const evidence = one && one.e?.[at];
      if (!evidence) return;
      const [quote, source] = evidence;
      const where = source ? `in the ${source}` : "found in neither text";
      const who = several ? ` by ${judgeName(columns[column])}` : "";
      if (cell.childNodes.length) cell.append(element("br"));
      cell.append("Quoted", who, ": ", element("q", "", quote), " ", element("span", source ? "" : "lost", where));
    });
    return cell.childNodes.length ? [element("tr", "about", cell)] : [];
  }

  function verdictTable(sample) {
    const people = raters.length > 0 && sample.h;
    const head = [
      heading("Criterion", "col"),
      heading("Share α", "col"),
      ...columns.map((column) => heading(judgeName(column), "col")),
    ];
    if (people) head.push(heading("People", "col"));
    const chosen = new Set(hasChoice() ? criteriaOf(sample) : []);
    const body = tasks[sample.t].c.flatMap(([id, kind, share, text], at) => {
      const cells = sample.v.map((one) => zCell(one ? one.z[at] : null));
      if (people) {
        const by = Object.entries(sample.h[at] ?? {});
        const each = by.length > 1 ? by.map(([name, z]) => `${name} ${percent(z)}`).join(", ") : (by[0]?.[0] ?? "");
        cells.push(zCell(peopleZ(sample, at), each));
      }
      const row = element("tr", "", heading(id, "row", kind === "kind.none" ? "" : kind), element("td", "", percent(share)), ...cells);
      row.classList.toggle("differs", isSplit(allCalls(sample, at)));
      row.classList.toggle("focus", chosen.has(at));
      return [row, ...about(sample, at, text, head.length)];
    });
    const foot = [
      heading("Reward", "row"),
      element("td"),
      ...sample.v.map((one) => element("td", "", !one ? "not judged" : known(one.r) ? percent(one.r) : one.o)),
    ];
    if (people) foot.push(element("td"));
    return element(
      "div",
      "scroll",
      element(
        "table",
        "verdicts criteria",
        element("thead", "", element("tr", "", ...head)),
        element("tbody", "", ...body),
        element("tfoot", "", element("tr", "", ...foot)),
      ),
    );
  }

  function folded(title, className, text) {
    return element("details", "", element("summary", "", title), element("p", className, text));
  }

  function steering(sample) {
    const link = element("a", "", sample.n);
    link.href = address(["sample", sample.n]);
    const back = element("button", "", "Previous");
    const on = element("button", "", "Next");
    for (const [node, by] of [[back, -1], [on, 1]]) {
      node.type = "button";
      node.addEventListener("click", () => {
        step(by);
        $("detail").querySelectorAll(".steer button")[by < 0 ? 0 : 1].focus();
      });
    }
    return element("div", "steer", element("span", "", "Sample"), link, back, on);
  }

  function detail(sample) {
    const task = tasks[sample.t];
    const texts = sample.r.map((text, at) => {
      const who = columns.flatMap((column, c) => (sample.v[c] && (sample.v[c].x ?? 0) === at ? [column[0]] : []));
      const title = sample.r.length > 1 ? `Answer in ${[...new Set(who)].join(", ")}` : "Answer";
      return [element("h3", "", title), element("p", text ? "response" : "response empty", text || "(empty answer)")];
    });
    const reasons = sample.v.flatMap((one, c) => {
      if (!one || !(one.t || one.w)) return [];
      const title = several ? `Reasons of ${judgeName(columns[c])}` : "Reasons of the judge";
      return [
        element("h3", "", title),
        one.w ? element("p", "error", `${one.o}: ${one.w}`) : null,
        one.t ? element("p", "reasoning", one.t) : null,
      ];
    });
    return [
      steering(sample),
      element("h3", "", "Question"),
      element("p", "asked", task.q || "(the source holds no question)"),
      ...texts.flat(),
      element("h3", "", "Verdicts by criterion"),
      task.c.length ? verdictTable(sample) : element("p", "empty", "No criterion was scored."),
      ...reasons,
      task.g ? folded("Passage, which only the judge saw", "passage", task.g) : null,
      element(
        "dl",
        "facts",
        fact("Task", task.id),
        sample.p ? fact("From", sample.p) : null,
        sample.l ? fact("Place", sample.l) : null,
      ),
    ].filter(Boolean);
  }

  function showDetail() {
    const sample = byName.get(state.id);
    const nothing = [element("p", "empty", "No sample matches.")];
    $("detail").replaceChildren(...(sample ? detail(sample) : nothing));
    $("detail").scrollTop = 0;
  }

  function move(event) {
    const page = Math.max(1, Math.floor($("list").clientHeight / height()) - 1);
    const all = state.rows.length;
    const by = { ArrowDown: 1, ArrowUp: -1, Home: -all, End: all, PageDown: page, PageUp: -page }[event.key];
    if (by === undefined || !all) return;
    event.preventDefault();
    step(by);
  }

  // One row for each criterion of each sample that is shown. A cell that a spreadsheet would
  // compute is quoted.
  function csv() {
    const cell = (value) => {
      if (typeof value === "number") return String(value);
      const text = value ?? "";
      const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
      return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    const head = ["sample", "task", "from", "place", "question", "answer", "criterion", "kind", "share"];
    for (const column of columns) {
      const name = judgeName(column);
      head.push(`${name}: outcome`, `${name}: reward`, `${name}: score`, `${name}: quote`);
    }
    head.push(...raters.map((name) => `label: ${name}`));
    const lines = [head];
    for (const sample of state.rows) {
      const task = tasks[sample.t];
      for (const at of criteriaOf(sample)) {
        const [id, kind, share] = task.c[at];
        lines.push([
          ...[sample.n, task.id, sample.p, sample.l, task.q, sample.r.join("\n\n"), id, kind, share],
          ...sample.v.flatMap((one) => (one ? [one.o, one.r, one.z[at], one.e?.[at]?.[0]] : ["", "", "", ""])),
          ...raters.map((name) => sample.h?.[at]?.[name]),
        ]);
      }
    }
    return lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
  }

  function download() {
    const link = element("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", csv()], { type: "text/csv" }));
    link.download = "judgements.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // Ids that repeat; each of few. A rubric for each prompt has ids by the thousand, which an address
  // may name all the same.
  function fillFilters() {
    const counts = new Map();
    const kinds = new Map();
    for (const task of tasks) {
      for (const [id, kind] of task.c) {
        counts.set(id, (counts.get(id) ?? 0) + 1);
        if (kind) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      }
    }
    const names = [...counts.keys()].sort();
    const listed = names.length > 200 ? names.filter((name) => counts.get(name) > 1).slice(0, 500) : names;
    const every = countOf(names.length, "id");
    $("criterion").replaceChildren(new Option(`all (${every})`, ""), ...listed.map((name) => new Option(name, name)));
    $("kind").replaceChildren(new Option("all", ""), ...[...kinds.keys()].sort().map((name) => new Option(name, name)));
    $("kind").parentElement.hidden = kinds.size < 2;
    const disagreements = [["all", "all"]];
    if (several) disagreements.push(["judges", "judges differ"], ["one", "not judged by all"]);
    if (raters.length)
      disagreements.push(
        ["people", "judge and people differ"],
        ["lenient", "met by a judge, not by people"],
        ["strict", "met by people, not by a judge"],
      );
    if (raters.length > 1) disagreements.push(["raters", "people differ"]);
    $("differ").parentElement.hidden = disagreements.length === 1;
    $("differ").replaceChildren(...disagreements.map(([value, text]) => new Option(text, value)));
    const parts = [...new Set(samples.map((one) => one.p).filter(Boolean))];
    $("part")?.replaceChildren(new Option("all", ""), ...parts.map((name) => new Option(name, name)));
  }

  function clear() {
    for (const name of ["criterion", "kind", "part"]) if ($(name)) $(name).value = "";
    for (const name of ["outcome", "differ"]) $(name).value = "all";
    $("sort").value = "order";
    $("search").value = "";
  }

  // Shows what the address names: `#criterion=…&differ=…&sample=…`, or a sample alone.
  function goToAddress() {
    const hash = location.hash.slice(1);
    if (!hash || $(hash)) return false;
    const named = chosenByAddress() ?? new URLSearchParams({ sample: hash });
    clear();
    const missing = [];
    for (const name of ["criterion", "kind", "outcome", "differ", "part", "sort"]) {
      const value = named.get(name);
      if (value && !set($(name), value, { adds: name === "criterion" })) missing.push(value);
    }
    const sample = named.get("sample");
    if (sample) state.id = sample;
    choose(true);
    if (sample && !state.rows.some((row) => row.n === sample)) {
      const there = byName.has(sample);
      $("count").textContent = `${sample} is not ${there ? "among the chosen samples" : "on this page"}. ${$("count").textContent}`;
    }
    if (missing.length) $("count").textContent = `Not on this page: ${missing.join(", ")}. ${$("count").textContent}`;
    $("samples").scrollIntoView();
    $("list").focus({ preventScroll: true });
    return true;
  }

  function changed(keeps) {
    choose(keeps);
    history.replaceState(null, "", choices().length ? address() : location.pathname + location.search);
  }

  fillFilters();
  $("controls").hidden = $("browser").hidden = $("csv").hidden = false;
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const name of ["criterion", "kind", "outcome", "differ", "part", "sort"])
    $(name)?.addEventListener("change", () => changed(false));
  $("search").addEventListener("input", () => choose());
  $("clear").addEventListener("click", () => {
    clear();
    changed(true);
    $("list").focus();
  });
  $("csv").addEventListener("click", download);
  $("list").addEventListener("keydown", move);
  $("list").addEventListener("scroll", showRows, { passive: true });
  window.addEventListener("resize", showRows);
  window.addEventListener("hashchange", goToAddress);
  if (!goToAddress()) choose();
})();
