// Keeps the pages fresh, and shows moments in the viewer's zone. Without it everything can be read, in UTC, and
// reloaded by hand.
"use strict";

const two = (number) => String(number).padStart(2, "0");

// As the server writes a moment, but in the viewer's zone.
function local(at) {
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ` +
    `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

function offset(at) {
  const minutes = Math.abs(at.getTimezoneOffset());
  return `${at.getTimezoneOffset() > 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

function ago(ms) {
  const s = Math.floor(Math.abs(ms) / 1000);
  const told = s < 120 ? `${s} s` : s < 7200 ? `${Math.floor(s / 60)} min`
    : s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} days`;
  return ms <= -1000 ? `in ${told}` : `${told} ago`;
}

// The clock of the server: that of this machine may be wrong.
const ahead = Date.now() - Number(document.body.dataset.now);
const now = () => Date.now() - ahead;

// Shows the moments of a page as of one moment. What is shown already stays as it is, so that nobody loses a selection.
function moments(page, as_of) {
  for (const time of page.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue;
    const text = `${local(at)}.${String(at.getMilliseconds()).padStart(3, "0")} ${offset(at)}`;
    if (time.textContent !== text) {
      time.title = time.textContent;
      time.textContent = text;
    }
    time.dataset.ago = ago(as_of - at);
  }
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const zone of page.querySelectorAll("[data-zone]")) {
    if (zone.textContent !== name) zone.textContent = name;
  }
}
moments(document, now());
setInterval(() => moments(document, now()), 5000);

// Fields for moments are in the viewer's zone, as their labels say then, and are sent in UTC.
for (const field of document.querySelectorAll("input[data-moment]")) {
  const at = new Date(field.value);
  if (/T.*(Z|[+-]\d\d:\d\d)$/.test(field.value) && !isNaN(at)) field.value = local(at);
  field.form.addEventListener("submit", () => {
    const typed = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?$/.exec(field.value.trim());
    const at = typed && new Date(`${typed[1]}T${typed[2] ?? "00:00"}`);
    if (at && !isNaN(at)) field.value = at.toISOString();
  });
}

// The section of a page that a link names is not sent to the server, so it goes through the form of a sign-in.
const to = document.querySelector("input[name=to]");
if (to && /^#[A-Za-z0-9-]+$/.test(location.hash)) to.value += location.hash;

// Takes the sections of a new page over: only those that changed, and none that somebody uses at this moment.
function take(page) {
  const as_of = now();
  moments(document, as_of);
  moments(page, as_of);
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
