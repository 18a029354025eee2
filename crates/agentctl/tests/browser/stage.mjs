// The stage of the browser checks: the program, demo agents, the server, a browser. `.ci/browser` starts the scripts
// of this folder in a pid namespace and a home of their own.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";

const tools = createRequire(`${process.env.AGENTCTL_BROWSER_TOOLS}/tools.js`);
const { chromium } = tools("playwright-core");
export const axePath = tools.resolve("axe-core/axe.min.js");
export const program = process.env.AGENTCTL_PROGRAM;
export const home = process.env.HOME;

// --- checks

const results = [];

/// Runs one check and prints its line. A check fails by throwing. AGENTCTL_ONLY=PATTERN leaves the others out.
export async function check(name, body) {
  if (process.env.AGENTCTL_ONLY && !new RegExp(process.env.AGENTCTL_ONLY).test(name)) return;
  const began = Date.now();
  try {
    const remark = await body();
    results.push(true);
    console.log(`ok      ${name} (${Date.now() - began} ms)${remark ? `: ${remark}` : ""}`);
  } catch (error) {
    results.push(false);
    console.log(`FAILED  ${name}: ${error.message}\n${String(error.stack).split("\n").slice(1, 4).join("\n")}`);
  }
}

/// Prints the summary and ends the program.
export function finish(what) {
  const failed = results.filter((passed) => !passed).length;
  console.log(`${what}: ${results.length - failed} of ${results.length} checks passed`);
  process.exit(failed ? 1 : 0);
}

export function assert(holds, message) {
  if (!holds) throw new Error(message);
}

export function assertEqual(found, wanted, what) {
  assert(found === wanted, `${what}: ${JSON.stringify(found)}, expected ${JSON.stringify(wanted)}`);
}

/// Waits until a condition holds, and returns what it returned.
export async function eventually(what, condition, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what} did not happen within ${seconds} s`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

// --- the program

/// Runs the program to its end.
export function run(...args) {
  const done = spawnSync(program, args, { encoding: "utf8", maxBuffer: 64 << 20 });
  return { code: done.status, stdout: done.stdout, stderr: done.stderr };
}

export function agentctl(...args) {
  const done = run(...args);
  if (done.code !== 0) throw new Error(`agentctl ${args.join(" ")}: exit ${done.code}: ${done.stderr}`);
  return done.stdout;
}

export const json = (...args) => JSON.parse(agentctl(...args, "--json"));

let directories = 0;
export function directory(name = `work${(directories += 1)}`) {
  const path = `${home}/${name}`;
  mkdirSync(path, { recursive: true });
  return path;
}

/// Launches a demo agent in a directory of its own; returns its session id.
export function launch(prompt, { cwd = directory(), more = [] } = {}) {
  return agentctl("launch", "demo", "--cwd", cwd, ...more, "-p", prompt).trim().split("\n")[0];
}

/// Waits for the ask of a session.
export function askOf(session) {
  return eventually("an ask", () => json("asks").asks.find((ask) => ask.session_id === session));
}

// --- the server

export async function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/// `agentctl web` on a port.
export class Server {
  constructor(port, args) {
    this.port = port;
    this.args = args;
    this.origin = `http://127.0.0.1:${port}`;
  }

  static async start(...args) {
    const server = new Server(await freePort(), args);
    await server.start();
    return server;
  }

  async start() {
    this.said = "";
    this.process = spawn(program, ["web", "--listen", `127.0.0.1:${this.port}`, ...this.args], { stdio: ["ignore", "pipe", "pipe"] });
    this.ended = new Promise((resolve) => this.process.once("exit", resolve));
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on("data", (data) => (this.said += data));
    this.link = await eventually("the link of the server", () => {
      if (this.process.exitCode !== null) throw new Error(`agentctl web ended: ${this.said}`);
      return /http:\/\/\S+#k=[\w-]+/.exec(this.said)?.[0];
    });
  }

  /// Returns a new link, from `agentctl web --link`.
  newLink() {
    return /http:\/\/\S+#k=[\w-]+/.exec(agentctl("web", "--link"))[0];
  }

  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
  }
}

// --- the browser

export async function openBrowser() {
  const executablePath = process.env.AGENTCTL_CHROMIUM ?? "/usr/bin/chromium";
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

/// Serves the files of the page from a folder instead of the program, which then need not be built anew.
async function fromFolder(route) {
  const name = new URL(route.request().url()).pathname.slice(1);
  const file = `${process.env.AGENTCTL_PAGE}/${name || "index.html"}`;
  const headers = { "content-type": { js: "text/javascript", css: "text/css", svg: "image/svg+xml" }[name.split(".").pop()] ?? "text/html" };
  if (!name) Object.assign(headers, (await route.fetch()).headers());
  delete headers["content-length"];
  await route.fulfill({ headers, body: readFileSync(file) });
}

/// A page that takes note of everything that must not happen: errors, dialogs, requests to another origin.
export async function openPage(context, server) {
  const page = await context.newPage();
  if (process.env.AGENTCTL_PAGE) await page.route(`${server.origin}/*`, fromFolder);
  page.setDefaultTimeout(15_000);
  page.trouble = [];
  page.on("console", (message) => {
    // A refused or lost request is reported by the browser itself.
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) page.trouble.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => page.trouble.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    page.trouble.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(`${server.origin}/`)) page.trouble.push(`request: ${request.url()}`);
  });
  return page;
}

/// A page in a context of its own that is paired.
export async function pairedPage(browser, server, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await openPage(context, server);
  await page.goto(server.newLink());
  await page.waitForSelector("body[data-view=home]");
  await page.waitForFunction(() => document.querySelector("#actions") && !document.querySelector("#actions").hidden);
  return page;
}

/// Returns the list of all texts that an element has from now on: some stand there for one frame only.
export const wordsOf = (locator) => locator.evaluateHandle((element) => {
  const all = [];
  new MutationObserver(() => all.push(element.textContent)).observe(element, { childList: true, characterData: true, subtree: true });
  return all;
});

export const text = (locator) => locator.evaluate((element) => element.textContent);
export const card = (page, ask) => page.locator(`#cards [data-ask="${ask.id}"]`);
export const button = (page, ask, name) => card(page, ask).getByRole("button", { name: new RegExp(`^${name}`) }).first();
export const row = (page, session) => page.locator(`a.row[data-key^="demo:${session}@"]`);
