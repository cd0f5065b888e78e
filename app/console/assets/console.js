// Keeps a page up to date: fetches it again every few seconds and takes over what has changed, so that texts in forms, open
// details, the focus and the place on the page stay. Without this script everything works; it is only not live.
"use strict";

(() => {
  const every = Number(document.body.dataset.every);
  if (!every) return;
  const live = document.getElementById("live");
  const beat = document.getElementById("beat");
  const pause = document.getElementById("pause");
  live.hidden = false;

  let paused = false;
  let failures = 0;
  let timer = 0;
  let seen = Date.now();

  function say() {
    beat.classList.toggle("lost", failures > 0);
    if (paused) {
      beat.textContent = "❙❙ paused";
    } else if (failures > 0) {
      const seconds = Math.round((Date.now() - seen) / 1000);
      beat.textContent = "✕ no answer for " + seconds + " s";
    } else {
      beat.textContent = "● live";
    }
  }

  // morph makes a node like another one, and keeps what a person has done to it.
  function morph(old, next) {
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName ||
        (old.nodeType === Node.ELEMENT_NODE && (old.id !== next.id || old.dataset.key !== next.dataset.key))) {
      old.replaceWith(document.importNode(next, true));
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
      return;
    }
    const field = old.matches("input, select, textarea, option");
    if (!field) {
      for (const {name} of [...old.attributes]) {
        if (!next.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
      }
      for (const {name, value} of next.attributes) {
        if (old.getAttribute(name) !== value) old.setAttribute(name, value);
      }
      if (old.nodeName === "TEXTAREA") return;
    }
    if (old.nodeName === "SELECT" || old.nodeName === "TEXTAREA") return; // they belong to the person
    const have = [...old.childNodes];
    const want = [...next.childNodes];
    for (let i = 0; i < Math.max(have.length, want.length); i++) {
      if (i >= want.length) have[i].remove();
      else if (i >= have.length) old.append(document.importNode(want[i], true));
      else morph(have[i], want[i]);
    }
  }

  async function look() {
    clearTimeout(timer);
    if (paused || document.hidden) return;
    try {
      const answer = await fetch(location.href, {headers: {Accept: "text/html"}, cache: "no-store", signal: AbortSignal.timeout(15000)});
      if (answer.status >= 500) throw new Error("status " + answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("main");
      if (!next) throw new Error("no page");
      if (!paused) {
        morph(document.getElementById("main"), next);
        document.title = page.title;
      }
      failures = 0;
      seen = Date.now();
    } catch (error) {
      failures++;
    }
    say();
    clearTimeout(timer);
    timer = setTimeout(look, Math.min(every * 2 ** Math.min(failures, 4), 30000));
  }

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    say();
    look();
  });
  document.addEventListener("visibilitychange", look);
  say();
  timer = setTimeout(look, every);
})();
