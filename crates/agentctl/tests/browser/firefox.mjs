// The walk in Firefox, by hand: `.ci/browser firefox`. Pair, the live list, Allow, the changes, reconnect, hostile text.

import { existsSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Server, agentctl, askOf, assert, assertEqual, check, directory, eventually, finish, launch } from "./stage.mjs";

const tools = createRequire(`${process.env.AGENTCTL_BROWSER_TOOLS}/tools.js`);
const { default: puppeteer } = await import(tools.resolve("puppeteer-core"));
const server = await Server.start("--allow-control");
const browser = await puppeteer.launch({ browser: "firefox", executablePath: process.env.AGENTCTL_FIREFOX, headless: true });
const page = await browser.newPage();
const trouble = [];
page.on("pageerror", (error) => trouble.push(`error: ${error.message}`));
page.on("console", (message) => {
  if (message.type() === "error" && !/NetworkError|Failed to load/.test(message.text())) trouble.push(`console: ${message.text()}`);
});
page.on("dialog", (dialog) => {
  trouble.push(`dialog: ${dialog.message()}`);
  dialog.dismiss();
});
page.setDefaultTimeout(20_000);
const content = () => page.evaluate(() => document.body.innerText);
const shows = (words) => eventually(`the page shows ${words}`, async () => (await content()).includes(words), 20);
const rowOf = (session) => `a.row[data-key^="demo:${session}@"]`;

console.log(await browser.version());

await check("a link pairs, leaves no code in the address and no cookie", async () => {
  await page.goto(server.link);
  await page.waitForSelector("body[data-view=home]");
  await page.waitForSelector("#begin-link", { visible: true });
  assert(!page.url().includes("k="), `the address holds the code: ${page.url()}`);
  assertEqual(await page.evaluate(() => document.cookie), "", "cookies");
});

await check("the list is live: the stream of events is read by fetch", async () => {
  await shows("No session is running");
  const session = launch("Paint the fence [[say:I paint it now.]] [[hang]]");
  await page.waitForSelector(rowOf(session));
  agentctl("stop", session);
  await page.waitForSelector(rowOf(session), { hidden: true });
});

await check("ask, Allow, the tool ran", async () => {
  const made = `${directory("allowed")}/made`;
  const session = launch(`[[permit:touch ${made}]] [[say:went on]] [[hang]]`);
  const ask = await askOf(session);
  const allow = `#cards [data-ask="${ask.id}"] .allow`;
  await page.waitForSelector(allow);
  await eventually("Allow is enabled", () => page.$eval(allow, (button) => button.getAttribute("aria-disabled") === "false"));
  await page.click(allow);
  await eventually("the command has run", () => existsSync(made));
  await shows("Allowed here");
  agentctl("stop", session);
});

await check("the changes of a session are shown as a diff", async () => {
  const cwd = directory("changed");
  writeFileSync(`${cwd}/fence.txt`, "old paint\n");
  const session = launch("[[write:fence.txt|red paint]] [[say:painted]] [[hang]]", { cwd });
  await page.waitForSelector(rowOf(session));
  await page.goto(`${server.origin}/#/session/demo:${session}`);
  await page.waitForSelector("#session .call summary");
  await page.keyboard.press("2");
  const added = await page.waitForSelector("#session .work .file .added");
  assertEqual(await added.evaluate((line) => line.textContent), "+red paint", "the added line");
  agentctl("stop", session);
  await page.goto(`${server.origin}/#/`);
});

await check("hostile text is text", async () => {
  const session = launch("<img src=x onerror=alert(1)><script>alert(2)</script> [[hang]]");
  await page.waitForSelector(rowOf(session));
  await shows("<img src=x onerror=alert(1)>");
  assertEqual(await page.evaluate(() => document.querySelectorAll("img, body script").length), 0, "elements made of text");
  agentctl("stop", session);
});

await check("the page connects again after the server was killed, with the same token", async () => {
  await server.kill();
  const session = launch("Wash the pears [[hang]]");
  await server.start();
  await page.waitForSelector(rowOf(session), { timeout: 60_000 });
  agentctl("stop", session);
});

await check("nothing troubled the page", () => assert(trouble.length === 0, trouble.slice(0, 5).join("\n")));

// Last, because the refusal is an error of the page.
await check("a string is no HTML", async () => {
  const refused = await page.evaluate(() => {
    try {
      document.createElement("div").innerHTML = "<b>x</b>";
      return "taken";
    } catch (error) {
      return error.name;
    }
  });
  assertEqual(refused, "TypeError", "an assignment to innerHTML");
});

await browser.close();
await server.kill();
finish("firefox");
