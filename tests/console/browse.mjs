// Visits the console as operators do, in a real browser, and ends with 1 at the first promise that is broken.
//
// The test in tests/end_to_end starts servers, workers and load, and says in the environment where everything is:
// TANDEM_BROWSER (the directory of node_modules), TANDEM_CHROMIUM, CONSOLE_URL, CONSOLE_OPERATOR and CONSOLE_READER
// (tokens), CONSOLE_LETTER (a dead letter's id), and if pictures are wanted CONSOLE_FIGURES (a directory).
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const env = process.env;
const require = createRequire(join(env.TANDEM_BROWSER, "package.json"));
const { chromium } = require("playwright-core");
const axe = require("axe-core");

const browser = await chromium.launch({ executablePath: env.TANDEM_CHROMIUM, args: ["--no-sandbox"] });
const complaints = [];
let checked = 0;

async function visitor(token, options = {}) {
  const context = await browser.newContext({ baseURL: env.CONSOLE_URL, viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && complaints.push(`${page.url()}: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(`${page.url()}: ${error}`));
  page.on("dialog", (dialog) => { complaints.push(`${page.url()}: a script of foreign text ran`); dialog.dismiss(); });
  // The form, not its address: whoever opens any page without a session gets it with 401, which browsers log.
  await page.goto("/console/sign-in");
  await page.fill("#token", token);
  await page.click("main button");
  await page.waitForURL("/");
  return page;
}

async function accessible(page) {
  // evaluate runs outside the page's policy, so axe needs no exception from it.
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" | ")}`);
  assert.deepEqual(told, [], `${page.url()} is not accessible`);
  checked += 1;
}

const hostile = "<img src=x onerror=alert(1)>";
const q = encodeURIComponent;
const pages = [
  "/", "/console/transactions", "/console/transactions?state=done", `/console/transaction?id=${q(hostile)}`,
  "/console/accounts", "/console/account?id=a", `/console/account?id=${q(hostile)}`,
  "/console/letters", `/console/letter?id=${q(env.CONSOLE_LETTER)}`, "/console/audit", "/console/acts",
  "/console/confirm?act=freeze&id=a", "/console/bulk?act=unpark&code=account_unusable", "/console/job",
  "/console/transaction?id=hold", "/console/confirm?act=confirm&id=hold", "/console/handbook",
];

async function everyPage(name, options) {
  const page = await visitor(env.CONSOLE_OPERATOR, options);
  for (const address of pages) {
    const answer = await page.goto(address);
    assert.equal(answer.status(), 200, address);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1
      && [...document.querySelectorAll("main *")].filter((it) => it.getBoundingClientRect().right > innerWidth + 1)
        .map((it) => `${it.tagName} ${it.className}`).slice(0, 5).join(", "));
    assert.equal(wide, false, `${address} is wider than the screen`);
    assert.equal(await page.locator("img").count(), 0, `${address}: foreign text became an element`);
    await accessible(page);
    if (env.CONSOLE_FIGURES) {
      const path = join(env.CONSOLE_FIGURES, `page-${pages.indexOf(address)}-${name}.png`);
      await page.screenshot({ path, fullPage: true });
    }
  }
  await page.context().close();
}

async function chartsMove() {
  const page = await visitor(env.CONSOLE_OPERATOR);
  const line = () => page.locator("path.line0").first().getAttribute("d");
  const before = await line();
  await page.waitForFunction((old) => document.querySelector("path.line0").getAttribute("d") !== old, before, { timeout: 120_000 });
  await page.waitForFunction(() => document.getElementById("fresh").textContent.startsWith("Live"));
  await page.context().close();
}

async function searchAndAct() {
  const page = await visitor(env.CONSOLE_OPERATOR);
  await page.fill("#q", "parked-1");
  await page.press("#q", "Enter");
  await page.waitForURL(/transaction\?id=parked-1/);
  await page.click("text=Bring the parked transaction back");
  await page.click("main button");
  assert.match(page.url(), /confirm/, "nothing is done without a reason");
  await page.fill("#reason", "the account was mended");
  await page.click("main button");
  await page.waitForSelector("text=Done:");
  await page.goto(`/console/letter?id=${q(env.CONSOLE_LETTER)}`);
  await page.click("text=Replay the letter");
  await page.fill("#reason", "its worker is mended");
  await page.click("main button");
  await page.waitForSelector("text=Done:");
  await page.goto("/console/audit");
  await page.click("text=Start an audit");
  await page.fill("#reason", "a test");
  await page.click("main button");
  await page.click("text=See how it stands");
  await page.waitForSelector("text=Every rule holds.", { timeout: 240_000 });
  await page.context().close();
}

// A link survives the sign-in, a person finds what there is, moments are the viewer's, and a part of a hold is captured.
async function comesByALinkAndCapturesAPart() {
  const context = await browser.newContext({ baseURL: env.CONSOLE_URL, timezoneId: "Asia/Kolkata" });
  const page = await context.newPage();
  page.on("pageerror", (error) => complaints.push(`${page.url()}: ${error}`));
  await page.goto("/console/confirm?act=confirm&id=hold");
  await accessible(page);
  await page.fill("#token", env.CONSOLE_OPERATOR);
  await page.click("main button");
  await page.waitForURL(/confirm\?act=confirm&id=hold/);
  await page.fill("#value", "31");
  await page.fill("#reason", "the order was small");
  await page.click("main button");
  await page.waitForSelector("#value-problem:text('more than is held')");
  await accessible(page);
  await page.fill("#value", "12");
  await page.click("main button");
  await page.click("text=See how it stands");
  await page.waitForSelector("text=of 30 that was on hold");
  await page.waitForFunction(() => document.querySelector("ol.way time").textContent.endsWith("+05:30"));
  const created = page.locator("ol.way time").first();
  assert.match(await created.getAttribute("title"), /UTC$/, "the time of the server is kept");
  assert.match(await created.getAttribute("data-ago"), /^\d+ (s|min) ago$/);
  await accessible(page);
  // A moment is typed in the zone that the form says, and sent in UTC.
  for (const [list, field] of [
    ["/console/acts", "since"], ["/console/transactions", "endedSince"], ["/console/account?id=a", "from"],
  ]) {
    await page.goto(list);
    await page.waitForSelector("#zone:has-text('Asia/')");
    await page.fill(`#${field}`, "2026-01-01 05:30");
    await page.click("main form.filter button");
    await page.waitForURL(new RegExp(`${field}=2026-01-01T00%3A00%3A00`));
    assert.equal(await page.inputValue(`#${field}`), "2026-01-01 05:30:00");
    const apart = await page.evaluate(() => [...document.querySelectorAll("main .filter .field")]
      .filter((it) => it.children[0].getBoundingClientRect().bottom <= it.children[1].getBoundingClientRect().top).length);
    assert.equal(apart, 0, `${list}: a label stands beside its field`);
  }
  assert.equal((await page.goto("/console/nothing")).status(), 404);
  await accessible(page);
  // The head stays in view: the page scrolls, and no box in it.
  await page.goto("/console/handbook");
  const boxes = await page.evaluate(() => [...document.querySelectorAll("main *")]
    .filter((it) => it.scrollHeight > it.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(it).overflowY)).length);
  assert.equal(boxes, 0, "nothing scrolls within the page");
  await context.close();
}

async function bulkJob() {
  const page = await visitor(env.CONSOLE_OPERATOR);
  await page.goto("/console/letters");
  await page.click("tr:has(th:text-is('account_unusable')) >> text=Bring the parked transaction back: all");
  await page.fill("#reason", "all accounts were mended");
  await page.click("main form button");
  await page.waitForURL(/job/);
  // Without a reload: the script looks again.
  await page.waitForSelector("text=3 done, 0 were not there any more, 0 failed.", { timeout: 120_000 });
  await accessible(page);
  await page.context().close();
}

// While workers settle as fast as they can, the page answers within a second all the time.
async function neverFreezes() {
  const page = await visitor(env.CONSOLE_OPERATOR);
  const longest = await page.evaluate(() => new Promise((resolve) => {
    let last = performance.now(), longest = 0;
    const end = last + 10_000;
    const frame = (now) => {
      longest = Math.max(longest, now - last);
      last = now;
      if (now < end) requestAnimationFrame(frame); else resolve(longest);
    };
    requestAnimationFrame(frame);
  }));
  assert.ok(longest < 1_000, `the page stood still for ${longest} ms`);
  await page.context().close();
}

async function saysHowOldItsDataAre() {
  const page = await visitor(env.CONSOLE_OPERATOR);
  const says = (text) => page.waitForFunction((text) => document.getElementById("fresh").textContent.startsWith(text), text, { timeout: 240_000 });
  await says("Live");
  await page.context().setOffline(true);
  await says("These data are");
  await page.context().setOffline(false);
  await says("Live");
  // The browser itself logs what it could not load.
  complaints.splice(0, complaints.length, ...complaints.filter((text) => !text.includes("ERR_INTERNET_DISCONNECTED")));
  await page.context().close();
}

async function readerSeesNoButton() {
  const page = await visitor(env.CONSOLE_READER);
  for (const address of ["/console/account?id=a", "/console/audit"]) {
    await page.goto(address);
    assert.equal(await page.locator("main .acts, main form:not(.filter) button").count(), 0, address);
  }
  const status = await page.evaluate(async () => {
    const body = new URLSearchParams({ act: "freeze", id: "a", reason: "x" });
    return (await fetch("/console/act", { method: "POST", body })).status;
  });
  assert.equal(status, 403);
  // The browser itself logs the answer 403.
  complaints.splice(0, complaints.length, ...complaints.filter((text) => !text.includes("status of 403")));
  await page.context().close();
}

async function readsWithoutScript() {
  const page = await visitor(env.CONSOLE_READER, { javaScriptEnabled: false });
  for (const address of pages.filter((address) => !/letter|confirm|bulk|job|acts/.test(address))) {
    assert.equal((await page.goto(address)).status(), 200, address);
  }
  await page.goto("/");
  assert.ok((await page.locator("path.line0").first().getAttribute("d")).length > 10, "the chart is drawn");
  await page.context().close();
}

async function picture(name, options, address = "/") {
  if (!env.CONSOLE_FIGURES) return;
  const page = await visitor(env.CONSOLE_OPERATOR, options);
  await page.goto(address);
  await page.waitForFunction(() => document.getElementById("fresh").textContent === "Live");
  await page.screenshot({ path: join(env.CONSOLE_FIGURES, `console-${name}.png`) });
  await page.context().close();
}

const phone = { viewport: { width: 390, height: 844 } };
await everyPage("light", { colorScheme: "light" });
await everyPage("dark", { colorScheme: "dark" });
await everyPage("phone", phone);
await chartsMove();
await picture("wrong", { colorScheme: "light" });
await searchAndAct();
await comesByALinkAndCapturesAPart();
await bulkJob();
await neverFreezes();
await saysHowOldItsDataAre();
await readerSeesNoButton();
await readsWithoutScript();
await picture("light", { colorScheme: "light" });
await picture("dark", { colorScheme: "dark" });
await picture("phone", phone);
await browser.close();
assert.deepEqual(complaints, [], "no page complains in the browser's console");
console.log(`console: ${checked} pages without a violation of axe`);
