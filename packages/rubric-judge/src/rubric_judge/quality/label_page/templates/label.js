"use strict";
(() => {
  const { ask, at, pause, say } = people;
  const RETRY_MS = 500, AHEAD = 3, MOST_WAITING = 20;

  let rater = "";
  let cells = [];        // {line, criterion, score}; score is undefined while the cell is open
  let place = 0;
  let past = [];         // what `u` takes back: {place, before}
  let waiting = [];      // what the server has not said yet that it keeps, the oldest first
  let saving = false;
  let shown = -1;        // the place whose texts stand on the page: no other can be scored
  let late = "";         // why the oldest is not kept yet
  let stopped = "";      // why nothing can be kept any more
  const texts = new Map();

  function begin(name, work) {
    rater = name;
    cells = work.cells;
    for (const { place: i, score } of work.given) cells[i].score = score;
    past = work.given.map((one) => ({ place: one.place }));
    place = cells.findIndex(isOpen);
    if (place < 0) place = 0;
    return show();
  }

  // --- what is read -----------------------------------------------------------------------------

  const isOpen = (cell) => cell.score === undefined;

  function read(line) {
    if (!texts.has(line)) {
      const found = ask("GET", `v1/responses/${line}`);
      found.catch(() => texts.delete(line));
      texts.set(line, found);
    }
    return texts.get(line);
  }

  async function show() {
    const wanted = place, cell = cells[wanted];
    shown = -1;
    at("exactly").hidden = true;
    at("work").setAttribute("aria-busy", "true");
    status();
    let found;
    while (!found) {
      try { found = await read(cell.line); } catch (error) {
        if (error.status) { stop(error); return; }
        late = "the server does not answer"; status();
        await pause(RETRY_MS);
      }
      if (wanted !== place) return;
    }
    if (late && !waiting.length) late = "";
    draw(cell, found);
    shown = wanted;
    at("work").removeAttribute("aria-busy");
    status();
    const ahead = [...new Set(cells.slice(place).map((one) => one.line))].slice(1, AHEAD);
    ahead.forEach((line) => read(line).catch(() => {}));
  }

  function draw(cell, found) {
    const one = found.criteria[cell.criterion];
    if (at("response").dataset.line !== String(cell.line)) {
      at("response").dataset.line = cell.line;
      for (const part of ["question", "response", "passage"]) say(part, found[part]);
      scrollTo(0, 0);
    }
    if (found.parts) at("response").replaceChildren(...turns(found.parts, new Set(one.judged)));
    say("title", one.name);
    const judges = one.judges ? `, judges: ${one.judges}` : "";
    say("worth", `worth ${number(one.weight)} ${one.weight === 1 ? "point" : "points"}${judges}`);
    say("description", one.description);
    say("guide", one.guide);
    at("with-guide").hidden = !one.guide;
    at("with-elements").hidden = !one.elements.length;
    at("elements").replaceChildren(...one.elements.map((text) => {
      const item = document.createElement("li");
      item.textContent = text;
      return item;
    }));
    at("criterion").scrollTop = 0;
    cell.weight = one.weight;
    say("most", number(one.weight));
    at("scores").replaceChildren(...levels(one.weight).map((score, digit) => {
      const button = document.createElement("button"), key = document.createElement("kbd");
      const amount = document.createElement("b");
      button.type = "button";
      button.dataset.key = digit;
      button.setAttribute("aria-pressed", cell.score === score);
      amount.textContent = number(score);
      key.textContent = digit;
      button.append(amount, key);
      return button;
    }));
    const named = levels(one.weight).includes(cell.score);
    at("exact").setAttribute("aria-pressed", typeof cell.score === "number" && !named);
    at("exact").lastChild.textContent =
      typeof cell.score === "number" && !named ? ` ${number(cell.score)} given` : " other score";
    at("skip").setAttribute("aria-pressed", cell.score === null);
  }

  // A trajectory, folded by its turns: those with something that the criterion judges are open.
  function turns(parts, judged) {
    const folds = new Map();
    parts.forEach((part, i) => {
      if (!folds.has(part.turn)) {
        const fold = document.createElement("details"), head = document.createElement("summary");
        fold.className = "turn";
        head.textContent = `Turn ${part.turn}`;
        fold.append(head);
        folds.set(part.turn, fold);
      }
      const fold = folds.get(part.turn), shown = document.createElement("section");
      const name = document.createElement("p"), text = document.createElement("div");
      const isJudged = judged.has(i);
      shown.className = isJudged ? "part judged" : "part";
      name.className = "author";
      name.textContent = isJudged ? `${part.heading}, judged` : part.heading;
      text.textContent = part.text;
      shown.append(name, text);
      fold.append(shown);
      if (isJudged) fold.open = true;
    });
    return [...folds.values()];
  }

  // Whole points as they are; of other weights quarters. Any other score is typed after `e`.
  const levels = (weight) => Number.isInteger(weight) && weight <= 9
    ? Array.from({ length: weight + 1 }, (_, points) => points)
    : [0, 1, 2, 3, 4].map((quarters) => (weight * quarters) / 4);
  const number = (value) => String(Number(value.toPrecision(6)));

  function status() {
    const done = cells.filter((cell) => !isOpen(cell)).length;
    const end = done === cells.length ? ": all done, thank you" : "";
    say("progress", `number ${place + 1} of ${cells.length}, ${done} labelled${end}`);
    at("bar").style.width = `${(100 * done) / cells.length}%`;
    at("saved").className = waiting.length || late || stopped ? "late" : "";
    const count = waiting.length ? `${waiting.length} not saved yet` : "";
    say("saved", late ? [late, count].filter(Boolean).join(", ") : count || "saved");
    say("problem", stopped);
  }

  // --- what is kept -----------------------------------------------------------------------------

  function give(score) {
    if (shown !== place || stopped) return;
    if (late || waiting.length >= MOST_WAITING) { status(); return; }
    const cell = cells[place];
    past.push({ place, before: cell.score });
    keep(place, score);
    next();
  }

  function keep(where, score) {
    cells[where].score = score;
    waiting.push({ place: where, score });
    save();
  }

  async function save() {
    if (saving) return;
    saving = true;
    while (waiting.length && !stopped) {
      const { place: where, score } = waiting[0];
      const { line, criterion } = cells[where], cell = { rater, line, criterion };
      try {
        if (score === undefined) await ask("DELETE", `v1/label?${new URLSearchParams(cell)}`);
        else await ask("PUT", "v1/label", { ...cell, score });
        waiting.shift();
        late = "";
      } catch (error) {
        if (error.status && error.status < 500) stop(error);
        else {
          late = error.status ? error.message : "the server does not answer";
          status();
          await pause(RETRY_MS);
        }
      }
      status();
    }
    saving = false;
  }

  function stop(error) {
    stopped = `Not saved: ${error.message}. Reload the page.`;
    status();
  }

  // --- keys -------------------------------------------------------------------------------------

  function go(where) {
    if (where < 0 || where >= cells.length) return;
    place = where;
    show();
  }

  function next() {
    const after = cells.findIndex((cell, i) => i > place && isOpen(cell));
    const open = after < 0 ? cells.findIndex(isOpen) : after;
    if (open < 0) show(); else go(open);
  }

  function undo() {
    if (!past.length || stopped || late) return;
    const { place: where, before } = past.pop();
    keep(where, before);
    go(where);
  }

  function press(key) {
    const cell = cells[place];
    if (/^[0-9]$/.test(key) && cell.weight !== undefined) {
      const score = levels(cell.weight)[Number(key)];
      if (score !== undefined) give(score);
      else {
        const keys = levels(cell.weight).length - 1;
        say("problem", `Key ${key} is no score here: keys 0 to ${keys} give up to ${number(cell.weight)}, e any other.`);
      }
    } else if (key === "s") give(null);
    else if (key === "e") { at("exactly").hidden = false; at("amount").value = ""; at("amount").focus(); }
    else if (key === "j" || key === "ArrowRight") go(place + 1);
    else if (key === "k" || key === "ArrowLeft") go(place - 1);
    else if (key === "n") next();
    else if (key === "u") undo();
    else return false;
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (at("work").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.tagName === "INPUT") {
      if (event.key === "Escape") { at("exactly").hidden = true; event.target.blur(); }
      return;
    }
    // A key that is held down is one answer.
    if (event.repeat && !"jk".includes(event.key)) return;
    if (press(event.key)) event.preventDefault();
  });
  at("answers").addEventListener("click", (event) => {
    const button = event.target.closest("button[data-key]");
    if (button) { press(button.dataset.key); if (button.dataset.key !== "e") button.blur(); }
  });
  at("exactly").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = at("amount").value.trim().replace(",", "."), score = Number(text);
    if (!text || !(score >= 0 && score <= cells[place].weight)) {
      say("problem", `A score is a number from 0 to ${number(cells[place].weight)}.`);
      at("amount").select();
      return;
    }
    at("amount").blur();
    give(score);
  });
  people.start(begin, () => !waiting.length);
})();
