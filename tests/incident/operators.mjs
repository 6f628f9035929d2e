// Two operators who look at the console and act in it, each in a window of their own, while an incident is played.
//
// tests/incident starts it, and says in the environment where everything is: TANDEM_BROWSER (the directory of
// node_modules), TANDEM_CHROMIUM, INCIDENT_URL, INCIDENT_TOKEN (an operator's) and INCIDENT_BACKLOG (how many
// transactions wait). Each line on stdin is the name of a phase, and "end" is the last one. Each line on stdout is a
// page that an operator has seen, as JSON: { who, page, status, ms, said, done }, with status 0 where none came. Where
// a transaction was to be canceled it also has its id: { cancels }.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const env = process.env;
const require = createRequire(join(env.TANDEM_BROWSER, "package.json"));
const { chromium } = require("playwright-core");

const PATIENCE_MS = 60_000;
const BETWEEN_MS = 2_000;
const TRIES = 10;
// In these phases one of them pauses settlement once, and lets it go on.
const PAUSED_IN = new Set(["away", "killed"]);

let phase = "before";
createInterface({ input: process.stdin })
  .on("line", (line) => { phase = line.trim(); })
  // Whoever has started this is gone.
  .on("close", () => { phase = "end"; });

const tell = (line) => process.stdout.write(JSON.stringify(line) + "\n");

// What a page says of problems: of each its heading, and where the page is about it alone, what comes below.
const problems = (page) => page.evaluate(() => [...document.querySelectorAll(".problem")].map((it) => {
  const heading = it.querySelector("h2");
  const below = it.matches("section") ? it.querySelector("p") : null;
  return [heading ?? it, below].filter(Boolean).map((part) => part.innerText.trim()).join(": ");
}).join("; "));

const inOneLine = (error) => String(error.message ?? error).split("\n")[0];

// Does something that brings a page, and tells what came: also whether the page says that an act is done.
async function see(page, who, name, bring, about = {}) {
  const begun = performance.now();
  const line = { who, page: name, status: 0, ms: 0, said: "", done: false, ...about };
  try {
    const answer = await bring();
    await page.waitForLoadState("load", { timeout: PATIENCE_MS });
    line.ms = performance.now() - begun;
    line.status = answer?.status() ?? 0;
    line.said = await problems(page);
    line.done = await page.locator("p.fine:has-text('Done:')").count() > 0;
  } catch (error) {
    line.ms = performance.now() - begun;
    line.said = inOneLine(error);
  }
  tell(line);
  return line;
}

const visit = (page, who, name, address) =>
  see(page, who, name, () => page.goto(address, { timeout: PATIENCE_MS }));

// Presses a button of a form, and waits for the page that it leads to.
async function send(page, button) {
  const [answer] = await Promise.all([page.waitForNavigation({ timeout: PATIENCE_MS }), page.click(button)]);
  return answer;
}

async function signIn(page, who) {
  while (phase !== "end") {
    const line = await see(page, who, "sign in", async () => {
      await page.goto("/console/sign-in", { timeout: PATIENCE_MS });
      await page.fill("#token", env.INCIDENT_TOKEN);
      return send(page, "main button");
    });
    // It leads to the overview.
    if (line.status >= 200 && line.status < 400) return;
    await sleep(BETWEEN_MS);
  }
}

// Asks for an act on its page, and gives a reason; whether the next page says that it is done.
async function act(page, who, name, address, about) {
  const asked = await visit(page, who, `${name}, form`, address);
  if (asked.status !== 200) return false;
  const { done } = await see(page, who, name, async () => {
    await page.fill("#reason", "an incident is played");
    return send(page, "section.confirm form button");
  }, about);
  return done;
}

const pause = (page, who) => act(page, who, "pause", "/console/confirm?act=pause&id=");

// What was paused goes on, also where it was not told whether it was paused.
async function resume(page, who) {
  for (let left = TRIES; left > 0 && phase !== "end"; left -= 1) {
    if (await act(page, who, "resume", "/console/confirm?act=resume&id=")) return;
    await sleep(BETWEEN_MS);
  }
}

const waiting = (number) => `backlog-${String(number).padStart(7, "0")}`;

async function operate(browser, who, first, pauses) {
  const context = await browser.newContext({ baseURL: env.INCIDENT_URL, viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await signIn(page, who);
  const paused = new Set();
  for (let number = first; phase !== "end"; number -= 2) {
    const seen = await visit(page, who, "overview", "/");
    if (seen.status === 401) await signIn(page, who);
    await sleep(BETWEEN_MS);
    await visit(page, who, "dead letters", "/console/letters");
    await visit(page, who, "transactions", "/console/transactions");
    const waits = phase !== "before" && phase !== "gathering" && number >= 0;
    await visit(page, who, "a transaction", `/console/transaction?id=${waits ? waiting(number) : "first"}`);
    await sleep(BETWEEN_MS);
    if (waits) {
      const cancels = waiting(number);
      await act(page, who, "cancel", `/console/confirm?act=cancel&id=${cancels}`, { cancels });
    }
    if (pauses && PAUSED_IN.has(phase) && !paused.has(phase)) {
      paused.add(phase);
      await pause(page, who);
      await visit(page, who, "overview", "/");
      await resume(page, who);
    }
    await sleep(BETWEEN_MS);
  }
  await context.close();
}

const browser = await chromium.launch({ executablePath: env.TANDEM_CHROMIUM, args: ["--no-sandbox"] });
const last = Number(env.INCIDENT_BACKLOG) - 1;
await Promise.all([operate(browser, "olivia", last, true), operate(browser, "omar", last - 1, false)]);
await browser.close();
process.exit(0);
