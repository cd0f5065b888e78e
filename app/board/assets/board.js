// Replaces tiles by their newest state as the board sends them. Without this script, reload the page.
"use strict";

(() => {
  const beat = document.getElementById("beat");
  const events = new EventSource("events");
  events.onopen = () => { beat.textContent = "● live"; };
  events.onerror = () => { beat.textContent = "✕ the board does not answer"; };
  events.onmessage = (event) => {
    const holder = document.createElement("template");
    holder.innerHTML = JSON.parse(event.data);
    const next = holder.content.firstElementChild;
    const old = next && document.getElementById(next.id);
    if (!old || old.isEqualNode(next)) return;
    const focused = old.contains(document.activeElement);
    old.replaceWith(next);
    if (focused) next.querySelector("a")?.focus();
  };
})();
