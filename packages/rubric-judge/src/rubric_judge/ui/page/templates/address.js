"use strict";
// The part of an address after the #, as every page with samples reads and writes it: names of its
// filters with their values, `#criterion=names&step=3`.
window.address = (() => {
  // What is chosen; null where the address names a place of the page, or nothing.
  function read() {
    const hash = location.hash.slice(1);
    if (!hash.includes("=") || document.getElementById(hash)) return null;
    return new URLSearchParams(hash.replaceAll("+", "%2B"));
  }
  const written = (parts) => "#" + parts.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  // Chooses a value of a list; one that is not listed is added where that is allowed.
  function set(select, value, { adds = false } = {}) {
    if (!select) return false;
    if (![...select.options].some((option) => option.value === value)) {
      if (!adds) return false;
      select.append(new Option(value, value));
    }
    select.value = value;
    return true;
  }
  return { read, written, set };
})();
