"use strict";
// Search and filters over examples that are all on the page; without this script they are still read.
// A bar leads to the examples that it counts: by the lists of a section, or by any field that the
// statistics count (`#genres=paper`, `#question_words=10..20`).
(() => {
  const sections = [...document.querySelectorAll("form.controls")].map((form) => {
    const home = form.parentElement;
    const examples = [...home.querySelectorAll("details.example")];
    const facets = examples.map((example) => JSON.parse(example.dataset.facets ?? "{}"));
    const [search, ...filters] = form.querySelectorAll("input, select");
    const said = home.querySelector(".count span");
    const clear = home.querySelector(".count button");
    const state = { facet: null };
    filters.forEach((filter, place) => {
      const names = new Set(examples.map((example) => example.dataset[`tag${place}`]));
      for (const name of [...names].sort()) filter.append(new Option(name.replaceAll("_", " "), name));
    });

    // Whether an example has the value of a field, or a number within the range.
    function hasFacet(at) {
      if (!state.facet) return true;
      const [name, value] = state.facet;
      const values = facets[at][name] ?? [];
      const [low, high] = value.split("..");
      if (high === undefined || typeof values[0] !== "number") return values.includes(value);
      return values.some((number) => number >= Number(low) && (high === "" || number < Number(high)));
    }

    function show() {
      const query = search.value.trim().toLowerCase();
      let shown = 0;
      examples.forEach((example, at) => {
        const fits = filters.every(
          (filter, place) => !filter.value || example.dataset[`tag${place}`] === filter.value,
        );
        const hidden = !fits || !hasFacet(at) || (query && !example.textContent.toLowerCase().includes(query));
        example.hidden = hidden;
        shown += !hidden;
      });
      const [name, value] = state.facet ?? [];
      const control = name === "control" ? value : null;
      for (const answer of home.querySelectorAll("[data-control]"))
        answer.classList.toggle("chosen", answer.dataset.control === control);
      const range = value?.includes("..") ? value.replace(/\.\.$/, " and more").replace("..", " to ") : value;
      const chosen = name ? `: ${name.replaceAll("_", " ")} ${control?.replaceAll("_", " ") ?? range}` : "";
      said.textContent = `${shown} of ${examples.length} shown${chosen}`;
      clear.hidden = shown === examples.length;
    }

    function choose(named) {
      search.value = "";
      state.facet = null;
      const names = filters.map((filter) => filter.dataset.name);
      for (const filter of filters) filter.value = "";
      for (const [name, value] of named) {
        const place = names.indexOf(name);
        if (place < 0) state.facet = [name, value];
        else window.address.set(filters[place], value, { adds: true });
      }
      show();
      // Answers of a control are read where they stand: in the first task, and in all others that are opened.
      if (state.facet?.[0] !== "control") return;
      for (const answers of home.querySelectorAll(".answers")) answers.open = true;
      const first = examples.find((example) => !example.hidden);
      if (first) first.open = true;
    }

    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", show);
    clear.addEventListener("click", () => {
      choose([]);
      history.replaceState(null, "", location.pathname + location.search);
      search.focus();
    });
    show();
    return { home, choose, names: filters.map((filter) => filter.dataset.name) };
  });

  function goToAddress() {
    const named = window.address.read();
    if (!named || !sections.length) return;
    const parts = [...named];
    const isOf = (section) => parts.some(([name]) => section.names.includes(name));
    const { home, choose } = sections.find(isOf) ?? sections[0];
    choose(parts);
    home.scrollIntoView();
    home.focus({ preventScroll: true });
  }
  window.addEventListener("hashchange", goToAddress);
  goToAddress();
})();
