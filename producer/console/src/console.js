// Keeps the pages fresh. Without it everything can be read, and reloaded by hand.
"use strict";

// Takes the sections of a new page over: only those that changed, and none that somebody uses at this moment.
function take(page) {
  for (const fresh of page.querySelectorAll("#live section, #audit, #job, #pause")) {
    const old = document.getElementById(fresh.id);
    if (!old || old.isEqualNode(fresh)) continue;
    const selection = document.getSelection();
    const used = old.contains(document.activeElement) || old.querySelector("details[open]") ||
      (!selection.isCollapsed && selection.containsNode(old, true));
    if (!used) old.replaceWith(document.importNode(fresh, true));
  }
}

async function look() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(answer.status);
  take(new DOMParser().parseFromString(await answer.text(), "text/html"));
}

function watch(live) {
  const fresh = document.getElementById("fresh");
  let last = Date.now(), busy = false, stream = null;
  const see = async () => {
    // Events that come while a look is under way ask for nothing more: the next one does.
    if (busy || document.hidden) return;
    busy = true;
    try {
      await look();
      last = Date.now();
    } catch { /* The age on the page says it. */ }
    busy = false;
  };
  const open = () => {
    stream = new EventSource(live.dataset.stream);
    for (const name of ["overview", "sample"]) {
      stream.addEventListener(name, () => requestAnimationFrame(see));
    }
  };
  const follow = () => {
    if (stream) stream.close();
    stream = null;
    if (!document.hidden) open();
  };
  document.addEventListener("visibilitychange", follow);
  follow();
  setInterval(() => {
    const age = Math.round((Date.now() - last) / 1000);
    fresh.textContent = age < 8 ? "Live" : `These data are ${age} s old: the server does not answer`;
    fresh.classList.toggle("stale", age >= 8);
  }, 1000);
}

const live = document.getElementById("live");
if (live) watch(live);

// A job that runs is looked at again until it has ended.
async function again() {
  const running = document.querySelector("[data-again]");
  if (!running) return;
  if (!document.hidden) await look().catch(() => {});
  setTimeout(again, Number(running.dataset.again));
}
again();
