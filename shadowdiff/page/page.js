"use strict";
(() => {
  const box = document.getElementById("filter");
  if (!box) return;
  const groups = [...document.querySelectorAll(".group")].map((node) => ({
    node,
    badge: node.querySelector(".badge"),
    entries: [...node.querySelectorAll(".entry")].map((entry) => ({
      node: entry,
      kind: entry.dataset.kind,
      text: [node.querySelector("h2"), ...entry.querySelectorAll("h3, code")].map((n) => n.textContent).join(" ").toLowerCase(),
    })),
  }));
  const total = groups.reduce((n, g) => n + g.entries.length, 0);
  const kinds = document.getElementById("kinds");
  const shown = document.getElementById("shown");

  const apply = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = new Set([...kinds.querySelectorAll("input:checked")].map((i) => i.value));
    document.body.classList.toggle("hide-same", !wanted.has("same"));
    let all = 0;
    for (const g of groups) {
      let n = 0;
      for (const e of g.entries) {
        const match = wanted.has(e.kind) && words.every((w) => e.text.includes(w));
        e.node.hidden = !match;
        if (match) n++;
      }
      g.node.hidden = n === 0;
      g.badge.textContent = n === g.entries.length ? String(n) : n + " of " + g.entries.length;
      all += n;
    }
    shown.textContent = all + " of " + total + " shown";
    document.getElementById("nothing").hidden = all > 0;
  };
  const fromAddress = () => {
    const q = new URLSearchParams(location.hash.slice(1)).get("q");
    if (q !== null && q !== box.value) box.value = q;
    apply();
  };
  box.addEventListener("input", () => {
    const hash = box.value ? "#" + new URLSearchParams({ q: box.value }) : location.pathname + location.search;
    try { history.replaceState(null, "", hash); } catch { /* a file in a sandbox has no history */ }
    apply();
  });
  kinds.addEventListener("change", apply);
  window.addEventListener("hashchange", fromAddress);
  const open = (value) => () => groups.forEach((g) => { g.node.open = value; });
  document.getElementById("expand").addEventListener("click", open(true));
  document.getElementById("collapse").addEventListener("click", open(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== box) {
      event.preventDefault();
      box.focus();
    }
  });
  document.getElementById("tools").hidden = false;
  fromAddress();
})();
