"use strict";
// Who is at the page, and how it asks its server: for the scripts of both pages.
const people = (() => {
  const at = (id) => document.getElementById(id);
  const say = (id, text) => { at(id).textContent = text; };
  const kept = (key) => sessionStorage.getItem(key) ?? "";
  const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });
  let begin = null;

  async function ask(method, path, body) {
    const headers = { Authorization: `Bearer ${kept("token")}` };
    if (body) headers["Content-Type"] = "application/json";
    const reply = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
    if (reply.ok) return reply.status === 204 ? null : reply.json();
    let detail = reply.statusText;
    try { detail = (await reply.json()).detail; } catch { /* not ours: a proxy's */ }
    const error = new Error(typeof detail === "string" ? detail : "the request is not valid");
    error.status = reply.status;
    throw error;
  }

  async function welcome() {
    at("work").hidden = true;
    at("welcome").hidden = false;
    try {
      const { fixed, labels, answers } = await ask("GET", "v1/raters");
      if (fixed) return enter(fixed);
      at("known").replaceChildren(...Object.keys(labels ?? answers).map((name) => new Option(name)));
      at("with-token").hidden = !kept("token");
    } catch (error) {
      at("with-token").hidden = error.status !== 401;
      if (error.status !== 401 || kept("token")) say("refused", error.message);
    }
    at("name").focus();
    return undefined;
  }

  async function enter(name) {
    const work = await ask("GET", `v1/work?rater=${encodeURIComponent(name)}`);
    sessionStorage.setItem("rater", name);
    at("welcome").hidden = true;
    at("work").hidden = false;
    say("who", name);
    return begin(name, work);
  }

  /** Let somebody in: `begins` is called with their name and their work, `mayLeave` before they go. */
  function start(begins, mayLeave) {
    begin = begins;
    at("welcome").addEventListener("submit", async (event) => {
      event.preventDefault();
      if (at("token").value) sessionStorage.setItem("token", at("token").value);
      say("refused", "");
      try { await enter(at("name").value.trim()); } catch (error) {
        at("with-token").hidden = error.status !== 401;
        say("refused", error.message);
      }
    });
    at("leave").addEventListener("click", () => {
      if (!mayLeave()) return;
      sessionStorage.removeItem("rater");
      welcome();
    });
    addEventListener("beforeunload", (event) => { if (!mayLeave()) event.preventDefault(); });
    if (kept("rater")) enter(kept("rater")).catch(welcome);
    else welcome();
  }

  return { ask, at, pause, say, start };
})();
