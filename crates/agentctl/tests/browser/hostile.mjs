// 10,000 hostile strings through titles, directories, messages, an ask and a diff. Each has a number, so that the check
// can tell that every one of them was shown as text.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { agentctl, askOf, assert, assertEqual, card, directory, eventually, home, launch, pairedPage, program, row, text as textOf } from "./stage.mjs";
import { shownLines } from "./lines.mjs";

const TITLES = 1000;
const MESSAGES = 60;
const PER_MESSAGE = 100;
const IN_ASK = 1500;
const IN_DIFF = 1500;

const VECTORS = [
  "<script>pwned()</script>", "<img src=x onerror=pwned()>", "<img src=//127.0.0.1:1/steal>", "<svg onload=pwned()>", "<svg><script>pwned()</script></svg>",
  "<iframe srcdoc='<script>parent.pwned()</script>'>", "<iframe src=javascript:pwned()>", "<a href=javascript:pwned()>x</a>", "[x](javascript:pwned())", "[x](data:text/html,<script>pwned()</script>)",
  "![x](http://127.0.0.1:1/steal.png)", "<link rel=stylesheet href=http://127.0.0.1:1/s.css>", "<style>@import 'http://127.0.0.1:1/s.css'</style>", "<meta http-equiv=refresh content='0;url=http://127.0.0.1:1/'>",
  "<base href=http://127.0.0.1:1/>", "<form action=http://127.0.0.1:1/><input name=k autofocus onfocus=pwned()>", "<body onload=pwned()>", "<details open ontoggle=pwned()>", "<video><source onerror=pwned()></video>",
  "<object data=javascript:pwned()>", "<embed src=javascript:pwned()>", "<math><mtext><script>pwned()</script>", "\"><script>pwned()</script>", "'-pwned()-'", "${pwned()}", "{{pwned()}}", "</textarea><script>pwned()</script>", "</title><script>pwned()</script>",
  "<!--<script>pwned()</script>-->", "<![CDATA[<script>pwned()</script>", "&lt;script&gt;pwned()&lt;/script&gt;", "\\u003cscript\\u003epwned()\\u003c/script\\u003e", "__proto__", "constructor.prototype", "javascript:pwned()", "vbscript:pwned()", "data:text/html,<script>pwned()</script>",
  "http://127.0.0.1:1/%0d%0aSet-Cookie:x=1", "http://user:pass@127.0.0.1:1/", "HTTPS://127.0.0.1:1/\u202egpj.exe", "\u202e\u2066txt.exe\u2069", "\u200b\u200d\ufeff", "e\u0301\u0327\u0489\u0489\u0489", "\ud83d\udc68\u200d\ud83d\udc69\u200d\ud83d\udc67", "\u0000\u0007\u001b[31m\u001b]0;x\u0007\u009b1m", "\u2028\u2029", "event: look", "data: {\"full\":true}", "| a | b |", "```html", "# <b>x</b>", "* <i>x</i>", "> quoted <b>x</b>", "~~~", "1. <script>pwned()</script>", "<a href=\"http://127.0.0.1:1/\" ping=\"http://127.0.0.1:1/p\">x</a>",
];

// Every character that hides or reorders text, as the command line knows them (text.rs), but for a joiner or a variation
// selector of an emoji.
const UNSEEN = /(?!(?<=[^\P{Emoji}\d#*])[\u200d\ufe0e\ufe0f])[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u{34f}\u{600}-\u{605}\u{61c}\u{6dd}\u{70f}\u{890}-\u{891}\u{8e2}\u{115f}-\u{1160}\u{17b4}-\u{17b5}\u{180b}-\u{180f}\u{200b}-\u{200f}\u{2028}-\u{202e}\u{2060}-\u{206f}\u{3164}\u{fe00}-\u{fe0f}\u{feff}\u{ffa0}\u{fff0}-\u{fffb}\u{110bd}\u{110cd}\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/u;
// One of each range, each behind a letter.
VECTORS.push(Array.from({ length: 0x110000 }, (_, code) => code).filter((code) => code < 0xd800 || code > 0xdfff).map((code) => String.fromCodePoint(code)).filter((character, at, all) => UNSEEN.test(character) && !UNSEEN.test(all[at - 1] ?? "")).map((character) => `a${character}`).join(""));

let numbers = 0;
/// A hostile text with its own number, on one line.
const next = () => {
  const number = (numbers += 1);
  return { mark: `no${number}z`, text: `no${number}z ${VECTORS[number % VECTORS.length]}` };
};
const many = (count) => Array.from({ length: count }, next);

const at = () => new Date().toISOString();
const uuid = (number) => `f${String(number).padStart(7, "0")}-aaaa-4bbb-8ccc-000000000000`;

/// Writes the record of an ended session of the demo agent.
function record(number, prompt, said, cwd) {
  const folder = `${home}/.local/share/agentctl-demo/sessions`;
  mkdirSync(folder, { recursive: true });
  const usage = { input: 1, output: 1, cache_read: 0, cache_write: 0 };
  const lines = [{ type: "session", cwd, model: "demo-1" }, { type: "prompt", id: "p", text: prompt, at: at() }];
  said.forEach((text, index) => lines.push({ type: "say", id: `s${index}`, text, model: "demo-1", usage, at: at() }));
  lines.push({ type: "end", state: "finished", error: null, at: at() }, { type: "exit", code: 0, at: at() });
  writeFileSync(`${folder}/${uuid(number)}.jsonl`, `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`);
  return uuid(number);
}

/// Says which numbers are missing in the text of an element.
async function shown(page, selector, strings, what) {
  const text = await page.locator(selector).evaluate((element) => element.textContent);
  const missing = strings.filter(({ mark }) => !text.includes(`${mark} `) && !text.includes(`${mark}\n`));
  assert(missing.length === 0, `${what}: ${missing.length} of ${strings.length} strings are not shown, first ${JSON.stringify(missing[0])}`);
}

/// Counts what no text may become.
async function harmless(page, what) {
  const found = await page.evaluate((unseen) => {
    const bad = "main img, iframe, main svg, object, embed, video, base, meta[http-equiv], main link, main style, main script, [style], form[action], [onerror], [onload], [onclick], [onfocus], [ontoggle], [ping]";
    const elements = [...document.querySelectorAll(bad)].map((one) => one.outerHTML.slice(0, 100));
    const links = [...document.querySelectorAll("main a")].filter((one) => !/^https?:/.test(one.href) || (one.target === "_blank" && one.rel !== "noreferrer noopener"));
    const hidden = [...document.querySelector("main").textContent.matchAll(new RegExp(`.{0,20}${unseen}.{0,20}`, "gsu"))];
    return { elements, links: links.map((one) => one.href), hidden: hidden.slice(0, 5).map(([text]) => text), scripts: document.scripts.length, pwned: globalThis.wasPwned ?? 0 };
  }, UNSEEN.source);
  assertEqual(JSON.stringify(found), JSON.stringify({ elements: [], links: [], hidden: [], scripts: 1, pwned: 0 }), what);
  assert(page.trouble.length === 0, `${what}: ${page.trouble.slice(0, 5).join("\n")}`);
}

export async function hostile(browser, server) {
  const page = await pairedPage(browser, server);
  const plant = () => {
    globalThis.pwned = () => (globalThis.wasPwned = (globalThis.wasPwned ?? 0) + 1);
  };
  await page.addInitScript(plant);
  await page.evaluate(plant);
  // Titles and directories: ended sessions.
  const titles = many(TITLES);
  titles.forEach(({ text }, index) => record(index, text, ["x"], `/tmp/${text.replaceAll("\u0000", "")}`));
  await page.locator("#ended").check();
  while (await page.locator("#rows li").count() < TITLES) {
    await eventually("rows", async () => (await page.locator("#rows li").count()) >= 300);
    if (!(await page.locator("#more-rows").isVisible())) break;
    await page.locator("#more-rows").click();
  }
  await shown(page, "#rows", titles, "titles");
  await harmless(page, "titles");
  // Messages, with a live page and an earlier one.
  const said = Array.from({ length: MESSAGES }, () => many(PER_MESSAGE));
  const id = record(TITLES, "Hostile messages", said.map((strings) => strings.map(({ text }) => text).join("\n\n")), "/tmp/hostile");
  await page.goto(`${server.origin}/#/session/demo:${id}`);
  await page.waitForSelector("#session .message");
  const earlier = page.locator("#session .talk > button");
  for (let press = 0; press < 5 && (await earlier.isVisible()); press += 1) {
    const before = await page.locator("#session .lines").evaluate((element) => element.textContent.length);
    await earlier.click();
    await eventually("earlier messages", () => page.locator("#session .lines").evaluate((element, length) => element.textContent.length > length, before));
  }
  await shown(page, "#session .lines", said.flat(), "messages");
  await harmless(page, "messages");
  // An ask: the command of a permission. The script of the demo agent ends a command at "]]".
  const asked = many(IN_ASK);
  const command = asked.map(({ text }) => text.replaceAll("]]", "] ]").replaceAll("[[", "[ [").replaceAll("\u0000", "")).join("\n");
  const session = "abababab-0000-4000-8000-000000000000";
  const agent = spawn(program, ["demo-agent", "--session-id", session, "-p", `<img src=x onerror=pwned()> [[permit:${command.slice(0, 120_000)}]] [[hang]]`], { cwd: directory("hostile-ask"), stdio: "ignore" });
  const ask = await askOf(session);
  await page.goto(`${server.origin}/#/`);
  await card(page, ask).waitFor();
  const fitting = asked.filter(({ mark }) => ask.parts[0].text.includes(`${mark} `));
  assert(ask.parts[0].cut || fitting.length === IN_ASK, "the ask holds the whole command");
  await shown(page, "#cards", fitting, "ask");
  await harmless(page, "ask");
  // A diff: file names, removed and added lines.
  const cwd = directory("hostile-diff");
  const changed = many(IN_DIFF);
  const git = (...args) => assertEqual(spawnSync("git", ["-C", cwd, "-c", "user.name=a", "-c", "user.email=a@b", ...args]).status, 0, `git ${args[0]}`);
  git("init", "-q");
  const clean = (strings) => strings.map(({ text }) => text.replaceAll("\u0000", "")).join("\n");
  writeFileSync(`${cwd}/page.txt`, clean(changed.slice(0, IN_DIFF / 2)));
  git("add", ".");
  git("commit", "-qm", "begin");
  writeFileSync(`${cwd}/page.txt`, clean(changed.slice(IN_DIFF / 2)));
  writeFileSync(`${cwd}/<img src=x onerror=pwned()>`, "x\n");
  const changer = launch("Change it [[write:<svg onload=pwned()>|<script>pwned()<\\/script>]] [[hang]]", { cwd });
  await row(page, changer).waitFor();
  await page.goto(`${server.origin}/#/session/demo:${changer}/changes`);
  await page.locator("#session .work .patch").first().waitFor();
  await shown(page, "#session .work", changed, "diff");
  const patch = agentctl("diff", changer, "--patch");
  assertEqual(await page.locator("#session .work > :not(h2 ~ h2 ~ *) .line").count(), shownLines(patch), "lines of the diff");
  await harmless(page, "diff");
  await page.goto(`${server.origin}/#/session/demo:${changer}/facts`);
  await page.waitForSelector("#session .work dl");
  await harmless(page, "facts");
  agentctl("stop", changer, session);
  agent.kill("SIGKILL");
  await page.context().close();
  return `${numbers} strings`;
}

/// The page and the command line hide the same characters: those that belong to an emoji, and no others.
export async function emoji(browser, server) {
  const page = await pairedPage(browser, server);
  const table = readFileSync(new URL("../../../agentctl-core/src/text/emoji.rs", import.meta.url), "utf8");
  const ranges = [...table.matchAll(/\(0x(\w+), 0x(\w+)\)/g)].map(([, ...ends]) => ends.map((end) => parseInt(end, 16)));
  assert(ranges.length > 100, "the table of emoji.rs was not found");
  const wrong = await page.evaluate(async (ranges) => {
    const { h } = await import("/dom.js");
    const isEmoji = (code) => ranges.some(([first, last]) => first <= code && code <= last);
    const isShown = (text) => h("p", text).textContent.endsWith("}x");
    const codes = Array.from({ length: 0x110000 }, (_, code) => code).filter((code) => code < 0xd800 || code > 0xdfff);
    return codes.filter((code) => isShown(`${String.fromCodePoint(code)}\ufe0fx`) === isEmoji(code)).map((code) => code.toString(16));
  }, ranges);
  assertEqual(wrong.slice(0, 20).join(), "", "code points that only one of the page and emoji.rs takes for emoji");
  const hidden = [
    "a\u2215\ufe0fb", "c\ufe0f\u20e3d", "e\u2500\u200d\u2500f", "g\ufe0fh", "1\ufe0fi", "\u2764\ufe0f\ufe0ej", "1\ufe0f\ufe0f\u20e3",
    "\u{1f3f3}\ufe0e\u200d\u{1f308}", "\u{1f469}\u200d\u200d\u{1f467}", "k\u200d\u{1f467}", "\u{1f469}\u200dl",
  ];
  const harmlessOnes = ["\u2764\ufe0f\u200d\u{1f525}", "1\ufe0f\u20e3", "#\ufe0f\u20e3", "\xa9\ufe0f", "\u{1f469}\u{1f3fd}\u200d\u{1f680}", "\u231a\ufe0e"];
  const session = launch(`[[permit:echo ${[...hidden, ...harmlessOnes].join(" ")}]] [[hang]]`);
  const ask = await askOf(session);
  const shown = (await textOf(card(page, ask).locator("pre").first())).split(" ").slice(1);
  const withoutMarks = (word) => word.replace(/[\u200d\ufe0e\ufe0f]/gu, "");
  for (const [at, word] of hidden.entries()) assert(shown[at].includes("\\u{"), `the page hides a character of ${JSON.stringify(word)}`);
  assertEqual(shown.slice(hidden.length).join(" "), harmlessOnes.join(" "), "emoji on the page");
  const told = agentctl("asks", ask.id);
  for (const word of shown) assert(told.includes(withoutMarks(word)), `the command line does not show ${JSON.stringify(withoutMarks(word))}: ${told}`);
  assert(!/[\u200d\ufe0e\ufe0f]/u.test(told), "the command line shows a hidden character as it is");
  agentctl("stop", session);
  await page.context().close();
}
