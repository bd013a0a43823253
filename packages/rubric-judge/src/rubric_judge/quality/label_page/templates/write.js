"use strict";
(() => {
  const { ask, at, pause, say } = people;
  const RETRY_MS = 500, TYPING_MS = 400, AHEAD = 2, LONG_RUN = 6;
  const TRUTHS = ["right", "false"];

  let rater = "";
  let tasks = [];        // {task_id, typed, kept}: what stands in each box, and what the server keeps
  let place = 0;
  let shown = -1;        // the place whose texts stand on the page: no other can be written
  let common = new Set();
  let read = { passage: [], reference: [], terms: new Set() };
  let timer = 0;
  let saving = false;
  let late = "";         // why something is not kept yet
  const texts = new Map();

  function begin(name, work) {
    rater = name;
    common = new Set(work.function_words);
    tasks = work.tasks.map(({ task_id, given }) => {
      const kept = Object.fromEntries(TRUTHS.map((truth) => [truth, given[truth] ?? ""]));
      return { task_id, kept, typed: { ...kept } };
    });
    place = Math.max(tasks.findIndex(isOpen), 0);
    return show();
  }

  const isOpen = (task) => TRUTHS.some((truth) => !task.typed[truth].trim());
  const unsaved = () => tasks.flatMap((task) => TRUTHS
    .filter((truth) => task.typed[truth] !== task.kept[truth])
    .map((truth) => ({ task, truth })));

  // --- what is read -----------------------------------------------------------------------------

  function fetched(id) {
    if (!texts.has(id)) {
      const found = ask("GET", `v1/task?${new URLSearchParams({ task_id: id })}`);
      found.catch(() => texts.delete(id));
      texts.set(id, found);
    }
    return texts.get(id);
  }

  async function show() {
    const wanted = place, task = tasks[wanted];
    shown = -1;
    at("work").setAttribute("aria-busy", "true");
    for (const truth of TRUTHS) at(truth).disabled = true;
    status();
    let found;
    while (!found) {
      try { found = await fetched(task.task_id); } catch (error) {
        say("problem", error.status ? error.message : "The server does not answer.");
        await pause(RETRY_MS);
      }
      if (wanted !== place) return;
    }
    draw(task, found);
    shown = wanted;
    at("work").removeAttribute("aria-busy");
    status();
    tasks.slice(place + 1, place + 1 + AHEAD).forEach((one) => fetched(one.task_id).catch(() => {}));
  }

  function draw(task, found) {
    for (const part of ["question", "passage", "reference"]) say(part, found[part]);
    at("with-reference").hidden = !found.reference;
    at("with-reference").open = false;
    at("criteria").replaceChildren(...found.criteria.map(drawn));
    const passage = words(found.passage);
    read = { passage, reference: words(found.reference), terms: new Set(passage.filter(isTerm)) };
    for (const truth of TRUTHS) {
      at(truth).value = task.typed[truth];
      at(truth).disabled = false;
    }
    at("texts").scrollTop = 0;
    scrollTo(0, 0);
    measure();
  }

  function drawn(one) {
    const item = document.createElement("li");
    const add = (tag, name, text) => {
      if (!text) return;
      const part = document.createElement(tag);
      part.className = name;
      part.textContent = text;
      item.append(part);
    };
    add("b", "", one.name);
    add("small", "", ` worth ${Number(one.weight.toPrecision(6))}`);
    add("p", "said", one.description);
    const elements = one.elements.map((text) => text.replaceAll("|", " or ")).join("; ");
    add("p", "said more", elements && `A full answer contains: ${elements}`);
    add("p", "said more", one.guide && `How it is scored: ${one.guide}`);
    return item;
  }

  // --- what is counted, as `labels/likeness.py` does it -------------------------------------------

  const words = (text) => (text.match(/[\p{L}\p{N}]+(?:['’._-][\p{L}\p{N}]+)*/gu) ?? [])
    .map((word) => word.toLowerCase());
  const isTerm = (word) => word.length > 2 && !common.has(word);

  /** The longest run of words that stands in both: its length, and where it begins in the first. */
  function sharedRun(own, other) {
    const places = new Map();
    own.forEach((word, i) => places.set(word, [...(places.get(word) ?? []), i]));
    let runs = new Map(), most = { length: 0, start: 0 };
    for (const word of other) {
      const longer = new Map();
      for (const i of places.get(word) ?? []) {
        const length = (runs.get(i - 1) ?? 0) + 1;
        longer.set(i, length);
        if (length > most.length) most = { length, start: i - length + 1 };
      }
      runs = longer;
    }
    return most;
  }

  const counted = (count) => `${count} ${count === 1 ? "word" : "words"}`;

  function measure() {
    const right = words(at("right").value), wrong = words(at("false").value);
    const [of, run] = ["passage", "reference"]
      .map((name) => [name, sharedRun(right, read[name])])
      .reduce((a, b) => (b[1].length > a[1].length ? b : a));
    const long = run.length >= LONG_RUN;
    const same = right.slice(run.start, run.start + run.length).join(" ");
    const where = of === "passage" ? "the passage" : "the reference answer";
    say("right-measure", !right.length ? "" : [
      counted(right.length),
      long ? `${run.length} in a row are those of ${where}: “${same}”`
        : run.length > 1 ? `at most ${run.length} in a row as in ${where}` : "none in a row as in the passage",
    ].join(" · "));
    at("right-measure").classList.toggle("error", long);
    const terms = [...new Set(wrong.filter(isTerm))];
    const theirs = terms.filter((term) => read.terms.has(term)).length;
    const share = terms.length ? Math.round((100 * theirs) / terms.length) : 0;
    say("false-measure", !wrong.length ? "" : [
      counted(wrong.length), `${theirs} of ${terms.length} terms are the passage’s (${share} %)`,
    ].join(" · "));
  }

  function status() {
    const done = tasks.filter((task) => !isOpen(task)).length;
    const end = done === tasks.length ? ": all done, thank you" : "";
    say("progress", `question ${place + 1} of ${tasks.length}, ${done} with both answers${end}`);
    at("bar").style.width = `${(100 * done) / tasks.length}%`;
    const count = unsaved().length;
    at("saved").className = count ? "late" : "";
    say("saved", count ? `${count} not saved yet` : "saved");
    say("problem", count && late ? `Not saved: ${late}. What you typed stays here and is sent again.` : "");
  }

  // --- what is kept -----------------------------------------------------------------------------

  async function keep({ task, truth }) {
    const typed = task.typed[truth], spot = { rater, task_id: task.task_id, truth };
    if (typed.trim()) await ask("PUT", "v1/answer", { ...spot, response: typed });
    else await ask("DELETE", `v1/answer?${new URLSearchParams(spot)}`);
    task.kept[truth] = typed;
  }

  async function save() {
    clearTimeout(timer);
    timer = 0;
    if (saving) return;
    saving = true;
    for (let left = unsaved(); left.length && !timer; left = unsaved()) {
      let problem = "";
      for (const one of left) {
        try { await keep(one); } catch (error) {
          problem = error.status ? error.message : "the server does not answer";
        }
      }
      late = problem;
      status();
      if (problem) await pause(RETRY_MS);
    }
    saving = false;
    status();
  }

  function typed(event) {
    if (shown !== place) return;
    tasks[place].typed[event.target.id] = event.target.value;
    measure();
    status();
    clearTimeout(timer);
    timer = setTimeout(save, TYPING_MS);
  }

  function go(where) {
    if (where < 0 || where >= tasks.length) return;
    save();
    place = where;
    show();
  }

  function next() {
    const after = tasks.findIndex((task, i) => i > place && isOpen(task));
    const open = after < 0 ? tasks.findIndex(isOpen) : after;
    if (open < 0 || open === place) save(); else go(open);
  }

  for (const truth of TRUTHS) {
    at(truth).addEventListener("input", typed);
    at(truth).addEventListener("blur", save);
  }
  at("back").addEventListener("click", () => go(place - 1));
  at("on").addEventListener("click", () => go(place + 1));
  at("next").addEventListener("click", next);
  document.addEventListener("keydown", (event) => {
    if (at("work").hidden || event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (!event.repeat) next();
  });

  people.start(begin, () => !unsaved().length);
})();
