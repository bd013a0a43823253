"use strict";
// Search and filters over examples that are all on the page; without this script they are still read.
for (const form of document.querySelectorAll("form.controls")) {
  const examples = [...form.parentElement.querySelectorAll("details.example")];
  const [search, ...filters] = form.querySelectorAll("input, select");
  const count = form.parentElement.querySelector(".count");
  filters.forEach((filter, place) => {
    const names = new Set(examples.map((example) => example.dataset[`tag${place}`]));
    for (const name of [...names].sort()) filter.append(new Option(name.replaceAll("_", " "), name));
  });
  const show = () => {
    const query = search.value.trim().toLowerCase();
    let shown = 0;
    for (const example of examples) {
      const fits = filters.every(
        (filter, place) => !filter.value || example.dataset[`tag${place}`] === filter.value,
      );
      example.hidden = !fits || (query && !example.textContent.toLowerCase().includes(query));
      shown += !example.hidden;
    }
    count.textContent = `${shown} of ${examples.length} shown`;
  };
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  show();
}
