// The walk through the page in a real browser: pair, list, ask, allow, diff, two pages, reconnect, phone, keys, axe.

import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { Server, agentctl, askOf, assert, assertEqual, axePath, button, card, check, directory, eventually, finish, home, json, launch, openBrowser, openPage, pairedPage, row, text, wordsOf } from "./stage.mjs";
import { keptForm, abortedDiff, helpByKeys, notHeld, restarted, rulesInFull, settledInPast } from "./truth.mjs";
import { allowInView, failedCall, firstPress, grouped, loser, named, twoHomes } from "./cards.mjs";
import { emoji, hostile } from "./hostile.mjs";
import { keeps } from "./https.mjs";
import { wholeAsk, wholeDiff } from "./lines.mjs";
import { lateEnded, lateSend, lateStop, lostAnswers } from "./late.mjs";
import { fits, stoppedInView, targets, toldInView } from "./layout.mjs";
import { planted } from "./planted.mjs";

const pages = new URL("../../src/web/page/", import.meta.url);
const server = await Server.start("--allow-control", "--name", "box.example");
const browser = await openBrowser();
const untroubled = (page) => assert(page.trouble.length === 0, page.trouble.slice(0, 5).join("\n"));

await check("each module is short", () => {
  for (const name of readdirSync(pages)) {
    const content = readFileSync(new URL(name, pages), "utf8");
    if (name.endsWith(".js")) assert(content.split("\n").length <= 300, `${name} has ${content.split("\n").length} lines`);
  }
});

// --- pairing

const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
const page = await openPage(context, server);

await check("a page that is not paired says how to pair", async () => {
  await page.goto(server.origin);
  await page.getByText("agentctl web --link").waitFor();
  assertEqual(await page.locator("button:visible").count(), 0, "buttons without a pairing");
});

await check("a link pairs, leaves no code in the address and no cookie", async () => {
  await page.goto(server.link);
  await page.waitForSelector("body[data-view=home]");
  await page.waitForSelector("#begin-link:visible");
  assert(!page.url().includes("k="), `the address holds the code: ${page.url()}`);
  assertEqual((await context.cookies()).length, 0, "cookies");
  const stores = await page.evaluate(() => [sessionStorage.length, localStorage.length]);
  assertEqual(String(stores), "1,0", "entries in the stores of the session and the device");
});

await check("a second use of the link is refused", async () => {
  const other = await browser.newContext();
  const second = await openPage(other, server);
  await second.goto(server.link);
  await second.getByText("The link was refused").waitFor({ timeout: 10_000 });
  await second.getByText("agentctl web --link").first().waitFor();
  assertEqual(await second.evaluate(() => sessionStorage.length), 0, "tokens");
  await other.close();
});

await check("a link on another web page opens the page", async () => {
  const other = await browser.newContext();
  const elsewhere = await other.newPage();
  await elsewhere.route("http://elsewhere.example/", (route) => route.fulfill({ contentType: "text/html", body: `<a href="${server.newLink()}">open</a>` }));
  await elsewhere.goto("http://elsewhere.example/");
  await elsewhere.getByText("open").click();
  await elsewhere.waitForSelector("body[data-view=home]");
  await other.close();
});

/// A check that begins with the inbox and the list.
const walk = (name, body) => check(name, async () => {
  await page.goto(`${server.origin}/#/`);
  await page.waitForSelector("body[data-view=home]");
  // A failed check may have left words there.
  await page.locator("#filter").evaluate((filter) => {
    filter.value = "";
    filter.dispatchEvent(new Event("input"));
  });
  return body();
});

// --- the list

await walk("the list is live, and a click on a title opens the session", async () => {
  await page.getByText("No session is running. Start one with New session").waitFor();
  const session = launch("Paint the fence [[say:I paint it https://example.com/fence now.]] [[hang]]");
  await row(page, session).waitFor();
  await page.locator("#rows .title", { hasText: "Paint the fence" }).click();
  await page.waitForSelector("#session .message.assistant");
  const link = page.locator("#session .lines a").first();
  assertEqual(await link.getAttribute("rel"), "noreferrer noopener", "rel of a link");
  assertEqual(await text(link), "https://example.com/fence", "text of a link");
  agentctl("stop", session);
  await row(page, session).waitFor({ state: "detached" });
  await page.locator("#session .status.stopped, #session .status.error").waitFor();
  await page.goto(`${server.origin}/#/`);
});

await walk("the filter narrows the list", async () => {
  const [one, two] = [launch("Sort the apples [[hang]]"), launch("Wash the pears [[hang]]")];
  await row(page, one).waitFor();
  // A row may come before its title.
  await row(page, two).filter({ hasText: "Wash the pears" }).waitFor();
  await page.locator("#filter").fill("demo pears");
  await row(page, one).waitFor({ state: "detached" });
  assertEqual(await page.locator("a.row").count(), 1, "rows");
  await page.locator("#filter").fill("");
  await row(page, one).waitFor();
  agentctl("stop", one, two);
  await row(page, two).waitFor({ state: "detached" });
});

// --- asks

await walk("ask, Allow, the tool ran", async () => {
  const made = `${directory("allowed")}/made`;
  const session = launch(`[[permit:touch ${made}]] [[say:made]] [[hang]]`);
  const ask = await askOf(session);
  const allow = button(page, ask, "Allow");
  await allow.waitFor();
  assertEqual(await allow.getAttribute("aria-disabled"), "true", "Allow on a card that has just come");
  assertEqual(await page.title(), "(1) agentctl", "title");
  assert((await text(card(page, ask))).includes(`touch ${made}`), "the card shows the command");
  assert(!existsSync(made), "the command ran without an answer");
  const [sent] = await Promise.all([page.waitForRequest("**/api/answer"), allow.click()]);
  assertEqual(sent.postDataJSON().ask, ask.id, "the ask of the request");
  await eventually("the file", () => existsSync(made));
  await card(page, ask).getByText("Allowed here").waitFor();
  assertEqual(await page.title(), "agentctl", "title afterwards");
  await card(page, ask).getByText("Allowed here").click();
  await card(page, ask).waitFor({ state: "detached" });
  agentctl("stop", session);
});

await walk("Deny with a message denies, and the command does not run", async () => {
  const made = `${directory("denied")}/made`;
  const session = launch(`[[permit:touch ${made}]] [[say:went on]] [[hang]]`);
  const ask = await askOf(session);
  await card(page, ask).getByText("Tell the agent why not").click();
  await card(page, ask).locator("textarea").fill("not on my machine");
  await button(page, ask, "Deny").click();
  await card(page, ask).getByText("Denied here").waitFor();
  await eventually("the message in the record", () => agentctl("logs", session).includes("not on my machine"));
  assert(!existsSync(made), "a denied command ran");
  await button(page, ask, "Dismiss").click();
  agentctl("stop", session);
});

await walk("a question is answered by an option", async () => {
  const session = launch("[[ask:Which colour?|Red|Blue]] [[hang]]");
  const ask = await askOf(session);
  await card(page, ask).getByLabel("Blue").check();
  await button(page, ask, "Answer").click();
  await card(page, ask).getByText("Answered here").waitFor();
  await eventually("the answer in the record", () => agentctl("logs", session).includes("Blue"));
  await button(page, ask, "Dismiss").click();
  agentctl("stop", session);
});

await walk("an ask below the screen is allowed only when its end was seen", async () => {
  const made = `${directory("long")}/made`;
  const session = launch(`[[permit:touch ${made}; : ${"line ".repeat(2500)}]] [[hang]]`);
  const ask = await askOf(session);
  const allow = button(page, ask, "Allow");
  await allow.waitFor();
  // Deny needs no end: once it works, the card has stood still.
  await eventually("Deny is enabled", async () => (await button(page, ask, "Deny").getAttribute("aria-disabled")) === "false");
  assertEqual(await allow.getAttribute("aria-disabled"), "true", "Allow of a card whose end is below the screen");
  const said = await wordsOf(card(page, ask).locator(".outcome"));
  await allow.dispatchEvent("click");
  await eventually("the reason is said", () => said.evaluate((all) => all.includes("Read what is asked to its end first.")));
  assert(!existsSync(made), "a command was allowed whose end was not seen");
  await card(page, ask).locator(".buttons").scrollIntoViewIfNeeded();
  await eventually("Allow is enabled", async () => (await allow.getAttribute("aria-disabled")) === "false");
  await allow.click();
  await eventually("the file", () => existsSync(made));
  await button(page, ask, "Dismiss").click();
  agentctl("stop", session);
});

await walk("an ask that is answered elsewhere turns grey and stays until it is tapped", async () => {
  const session = launch("[[permit:true]] [[hang]]");
  const ask = await askOf(session);
  await card(page, ask).waitFor();
  agentctl("answer", ask.id, "--deny");
  await card(page, ask).getByText("No longer open").waitFor();
  assertEqual(await button(page, ask, "Allow").count(), 0, "Allow on a settled card");
  assertEqual(await page.title(), "agentctl", "title");
  await card(page, ask).click({ position: { x: 5, y: 5 } });
  await card(page, ask).waitFor({ state: "detached" });
  agentctl("stop", session);
});

await walk("an ask that is answered in its session is answered in the inbox too", async () => {
  const session = launch("[[permit:true]] [[hang]]");
  const ask = await askOf(session);
  await card(page, ask).waitFor();
  await page.goto(`${server.origin}/#/session/demo:${session}`);
  const inSession = page.locator(`#session [data-ask="${ask.id}"]`);
  await eventually("Allow is enabled", async () => (await inSession.locator(".allow").getAttribute("aria-disabled")) === "false");
  await inSession.locator(".allow").click();
  await inSession.getByText("Allowed here").waitFor();
  await page.goto(`${server.origin}/#/`);
  const inInbox = page.locator(`#inbox [data-ask="${ask.id}"]`);
  await inInbox.getByText("Allowed here").waitFor();
  await page.goto(`${server.origin}/#/ask/00000000`);
  await page.getByText("This ask is no longer open.").waitFor();
  await page.goto(`${server.origin}/#/`);
  await inInbox.locator(".dismiss").click();
  await inInbox.waitFor({ state: "detached" });
  agentctl("stop", session);
});

await walk("the end of a turn is confirmed", async () => {
  const session = launch("[[permit:true]] [[hang]]");
  const ask = await askOf(session);
  const end = card(page, ask).getByText("End the turn");
  await eventually("it is enabled", async () => (await end.getAttribute("aria-disabled")) === "false");
  await end.click();
  await page.locator("dialog").getByText("Cancel").click();
  assertEqual(await text(card(page, ask).locator(".outcome")), "", "outcome");
  await end.click();
  await page.locator("dialog").getByRole("button", { name: "End the turn" }).click();
  await card(page, ask).getByText("Turn ended here").waitFor();
  await card(page, ask).locator(".dismiss").click();
  agentctl("stop", session);
});

await walk("two pages answer at once, one answer is taken", async () => {
  const other = await pairedPage(browser, server);
  for (let round = 0; round < 3; round += 1) {
    const made = `${directory(`both${round}`)}/made`;
    const session = launch(`[[permit:echo ran >> ${made}]] [[hang]]`);
    const ask = await askOf(session);
    const both = [page, other];
    for (const one of both) {
      await eventually("Allow is enabled", async () => (await button(one, ask, "Allow").getAttribute("aria-disabled")) === "false");
    }
    await Promise.all(both.map((one) => button(one, ask, "Allow").click()));
    for (const one of both) await card(one, ask).locator(".dismiss").waitFor();
    const said = await Promise.all(both.map((one) => text(card(one, ask).locator(".outcome"))));
    assertEqual(said.filter((words) => words.startsWith("Allowed here")).length, 1, `answers that were taken, of ${JSON.stringify(said)}`);
    await eventually("the file", () => existsSync(made));
    assertEqual(readFileSync(made, "utf8"), "ran\n", "runs of the command");
    for (const one of both) await button(one, ask, "Dismiss").click();
    agentctl("stop", session);
  }
  untroubled(other);
  await other.context().close();
});

// --- one session

await walk("the changes of a session are shown as a diff", async () => {
  const cwd = directory("repository");
  const git = (...args) => assertEqual(spawnSync("git", ["-C", cwd, "-c", "user.name=a", "-c", "user.email=a@b", ...args]).status, 0, `git ${args[0]}`);
  git("init", "-q");
  writeFileSync(`${cwd}/notes.txt`, "one\ntwo\n");
  git("add", ".");
  git("commit", "-qm", "begin");
  const session = launch("Change the notes [[write:notes.txt|one\\nthree]] [[hang]]", { cwd });
  await row(page, session).click();
  await page.locator("#session .call summary").first().waitFor();
  await page.keyboard.press("2");
  const changes = page.locator("#session .work");
  await changes.locator(".file .added", { hasText: "+three" }).first().waitFor();
  await changes.locator(".file .removed", { hasText: "−two" }).first().waitFor();
  assert(!/diff --git|^--- |^\+\+\+ /m.test(await changes.locator(".patch").first().innerText()), "a patch names its file again");
  await page.keyboard.press("3");
  await changes.locator(".evidence li").first().waitFor();
  await changes.getByText(session).first().waitFor();
  await page.goto(`${server.origin}/#/`);
  agentctl("stop", session);
});

await walk("launch, send and stop from the page", async () => {
  const cwd = directory("launched");
  await page.locator("#begin-link").click();
  await page.locator("#begin .note", { hasText: /Not found on the PATH of this server: .*codex/ }).waitFor();
  await page.locator("[name=adapter]").selectOption("demo");
  await page.locator("[name=prompt]").fill("Water the plants [[say:done]] [[hang]]");
  await page.locator("[name=cwd]").fill(cwd);
  await page.getByRole("button", { name: "Launch" }).click();
  await page.waitForSelector("body[data-view=session]");
  await page.locator("#session .lines").getByText("done").first().waitFor();
  const session = json("list").sessions.find((one) => one.cwd === cwd);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert(json("list").sessions.some((one) => one.id === session.id), "a stop that was not confirmed ended the session");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator("dialog").getByRole("button", { name: "Stop" }).click();
  await page.locator("#session .notice", { hasText: "Stopped" }).waitFor();
  assert(!json("list").sessions.some((one) => one.id === session.id), "the session lives on");
  const kept = launch("Stay [[say:here]]", { more: ["--keep"] });
  await page.goto(`${server.origin}/#/session/demo:${kept}`);
  await page.locator("#session .status.idle").waitFor();
  await page.locator("#message").fill("and the roses");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator("#session .lines").getByText("and the roses").first().waitFor();
  agentctl("stop", kept);
  await page.goto(`${server.origin}/#/`);
});

// --- keys

await walk("everything is reached by the keyboard, and the focus comes back", async () => {
  const session = launch("Read the news [[hang]]");
  const focused = () => page.evaluate(() => /^demo:([^@]+)@/.exec(document.activeElement.dataset.key)?.[1]);
  await row(page, session).waitFor();
  // The process of the session that was stopped before may still be exiting: a row of its own, without a session.
  await page.waitForFunction((key) => document.querySelector("[data-key]")?.dataset.key.startsWith(key), `demo:${session}@`);
  await page.locator("body").press("?");
  await page.getByRole("heading", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "hidden" });
  await page.keyboard.press("/");
  assertEqual(await page.evaluate(() => document.activeElement.id), "filter", "focus after /");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  assertEqual(await focused(), session, "focus after j");
  await page.keyboard.press("Enter");
  await page.waitForSelector("body[data-view=session]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("body[data-view=home]");
  assertEqual(await focused(), session, "focus after Escape");
  agentctl("stop", session);
});

await walk("an ask is answered by the keyboard alone", async () => {
  const made = `${directory("keyed")}/made`;
  const session = launch(`[[permit:touch ${made}]] [[hang]]`);
  const ask = await askOf(session);
  await card(page, ask).waitFor();
  await page.keyboard.press("i");
  assertEqual(await page.evaluate(() => document.activeElement.dataset.ask), ask.id, "focus after i");
  await eventually("Allow is enabled", async () => (await button(page, ask, "Allow").getAttribute("aria-disabled")) === "false");
  for (let press = 0; press < 6; press += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement.textContent === "Allow")) break;
  }
  await page.keyboard.press("Enter");
  await eventually("the file", () => existsSync(made));
  await card(page, ask).locator(".dismiss").waitFor();
  assertEqual(await page.evaluate(() => document.activeElement.textContent), "Dismiss", "focus after the answer");
  await page.keyboard.press("Enter");
  agentctl("stop", session);
});

// --- a server that goes away

await walk("the page connects again after the server was killed, with the same token", async () => {
  await server.kill();
  await page.locator("#banner", { hasText: "Not connected" }).waitFor();
  await server.start();
  await page.locator("#banner").waitFor({ state: "hidden" });
  const session = launch("After the restart [[hang]]");
  await row(page, session).waitFor();
  await page.reload();
  await row(page, session).waitFor();
  agentctl("stop", session);
});

await walk("a tab whose token has ended says so, shows nothing more, and pairs again with a new link", async () => {
  const session = launch("Mow the lawn [[permit:true]] [[hang]]");
  await card(page, await askOf(session)).waitFor();
  await row(page, session).click();
  await page.waitForSelector("body[data-view=session]");
  await page.route("**/api/why*", (route) => route.fulfill({ status: 401, json: { error: { code: "unauthorized", message: "no" } } }));
  await page.keyboard.press("3");
  await page.getByText("The pairing has ended").waitFor();
  await page.getByText("agentctl web --link").waitFor();
  assertEqual(await page.evaluate(() => sessionStorage.length), 0, "tokens");
  assertEqual(await page.title(), "agentctl", "title");
  assertEqual(await page.locator(".row, .card, #session *").count(), 0, "rows, cards and parts of a session");
  assert(!(await page.locator("#sessions, #actions").first().isVisible()), "the list is still shown");
  await page.unroute("**/api/why*");
  await page.goto(server.newLink());
  await row(page, session).waitFor();
  agentctl("stop", session);
});

await walk("an address of one session or one ask opens it, also in a tab that was reloaded", async () => {
  const session = launch("Bake the bread [[permit:true]] [[hang]]");
  const ask = await askOf(session);
  await page.goto(`${server.origin}/#/session/demo:${session}/facts`);
  await page.reload();
  await page.locator("#session .work dl").getByText(session).first().waitFor();
  await page.goto(`${server.origin}/#/ask/${ask.id}`);
  await eventually("the ask has the focus", () => page.evaluate((id) => document.activeElement.dataset.ask === id, ask.id));
  await page.goto(`${server.origin}/#/session/demo:no-such-session`);
  await page.locator("#session .notice.bad").waitFor();
  await row(page, session).waitFor();
  agentctl("stop", session);
  await page.goto(`${server.origin}/#/`);
  await button(page, ask, "Dismiss").click();
});

await check("a new ask is notified after the person has allowed it by a button", async () => {
  const other = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await openPage(other, server);
  await page.addInitScript(() => {
    globalThis.shown = [];
    globalThis.Notification = class {
      static permission = "default";
      static async requestPermission() {
        return (this.permission = "granted");
      }
      constructor(title, options) {
        globalThis.shown.push(`${title}: ${options.body}`);
      }
    };
  });
  await page.goto(server.newLink());
  await page.getByRole("button", { name: "Notify me" }).click();
  await page.locator("#notify").waitFor({ state: "hidden" });
  const session = launch("[[permit:echo bell\u202egnp.\u200b]] [[hang]]");
  const ask = await askOf(session);
  await card(page, ask).waitFor();
  const title = ask.title.replace("\u202e", "\\u{202e}").replace("\u200b", "\\u{200b}");
  assert(title.includes("bell\\u{202e}gnp.\\u{200b}"), `the title of the ask: ${title}`);
  assertEqual(await page.evaluate(() => globalThis.shown.join()), `agentctl: demo asks: ${title}`, "notifications");
  assertEqual(await text(page.locator("#say-assertive")), `demo asks: ${title}`, "what a screen reader says");
  agentctl("stop", session);
  await other.close();
});

await check("nothing troubled the page so far", () => untroubled(page));
await check("10,000 hostile strings are shown as text", () => hostile(browser, server));
await check("every line of a diff is shown, whatever ends in it", () => wholeDiff(browser, server));
await check("every line of an ask is shown", () => wholeAsk(browser, server));
await check("the page and the command line agree about hidden characters of emoji", () => emoji(browser, server));
await check("over https the token can be kept on the device", () => keeps(browser, server));
await check("a server on another port learns no secret", () => planted(browser, server));

await check("a card that grew and then stood still takes the first press", () => firstPress(browser, server));
await check("Allow in view works by itself, and a refusal is read in view", () => allowInView(browser, server));
await check("the page that was later says what became of the ask", () => loser(browser, server));
await check("a rule is shown as it is, and is stored only once its end was in view", () => rulesInFull(browser, server));
await check("a refusal is not shown any longer than its reason holds", () => notHeld(browser, server));
await check("a settled card tells only what was", () => settledInPast(browser, server));
await check("Stopped is not said of a session that goes on", () => restarted(browser, server));
await check("the form for a new session keeps what was typed, and names its fields", () => keptForm(browser, server));
await check("a view that is left asks nothing more", () => abortedDiff(browser, server));
await check("? works always, and Space behind it closes the help", () => helpByKeys(browser, server));
await check("a name that is given later is shown", () => named(browser, server));
await check("sessions of two homes with the same id are two rows", () => twoHomes(browser, server));
await check("a group is no part of a title", () => grouped(browser, server));
await check("a folded call that failed says so in words", () => failedCall(browser, server));
await check("Stopped is told in the session that was stopped only", () => lateStop(browser, server));
await check("ended sessions that are read late are not shown after the box was cleared", () => lateEnded(browser, server));
await check("a message that is on its way changes no other session, and stays if it was not sent", () => lateSend(browser, server));
await check("an order whose answer was lost is not called failed, and is not given again by one press", () => lostAnswers(browser, server));

// --- sizes, phone and screen reader

await check("a long directory, title and command widen no page", () => fits(browser, server));
await check("every target on a phone is large", () => targets(browser, server));
await check("a lost connection and a closed ask are told in view", () => toldInView(browser, server));
await check("Stopped is told in view, and the ask says that the session has ended", () => stoppedInView(browser, server));

await check("on a phone: one column, large buttons, Deny left of Allow, nothing wider than the screen", async () => {
  const phone = await pairedPage(browser, server, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const session = launch("On the phone [[permit:true]] [[hang]]");
  const ask = await askOf(session);
  await button(phone, ask, "Allow").waitFor();
  const [deny, allow] = [await button(phone, ask, "Deny").boundingBox(), await button(phone, ask, "Allow").boundingBox()];
  assert(deny.height >= 48 && allow.height >= 48, `buttons of ${deny.height} and ${allow.height} px`);
  assert(allow.x - (deny.x + deny.width) >= 16, `a gap of ${allow.x - deny.x - deny.width} px`);
  const inbox = await phone.locator("#inbox").boundingBox();
  const list = await phone.locator("#sessions").boundingBox();
  assert(list.y >= inbox.y + inbox.height && list.x === inbox.x, "the list is not below the inbox");
  const fits = () => phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
  assert(await fits(), "the list is wider than the screen");
  await phone.locator(`a.row[data-key^="demo:${session}@"] .title`).tap();
  await phone.waitForSelector("#session .message");
  assert(await fits(), "the conversation is wider than the screen");
  assert(!(await phone.locator("#sessions").isVisible()), "the list beside a conversation");
  await phone.getByText("‹ All").tap();
  await eventually("Allow is enabled", async () => (await button(phone, ask, "Allow").getAttribute("aria-disabled")) === "false");
  await button(phone, ask, "Allow").tap();
  await card(phone, ask).getByText("Allowed here").waitFor();
  untroubled(phone);
  agentctl("stop", session);
  await phone.context().close();
});

async function axe(page, what) {
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter((one) => one.impact === "serious" || one.impact === "critical");
  const words = serious.map((one) => `${one.id} (${one.impact}) ${one.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join(" | ")}`);
  assert(serious.length === 0, `${what}: ${words.join("\n")}`);
}

for (const colorScheme of ["light", "dark"]) {
  await check(`axe finds nothing serious (${colorScheme}): list, ask, conversation, changes, facts, form`, async () => {
    // The content policy of the page refuses every script but its own, so axe needs a context without it.
    const page = await pairedPage(browser, server, { colorScheme, bypassCSP: true });
    const session = launch("Look at it [[say:Here is `code` and **more**.]] [[tool:false]] [[write:a.txt|b]] [[permit:true]] [[hang]]");
    const ask = await askOf(session);
    const question = launch("[[ask:Which colour?|Red|Blue]]");
    await button(page, ask, "Allow").waitFor();
    await card(page, await askOf(question)).waitFor();
    await page.addScriptTag({ path: axePath });
    await eventually("Allow is enabled", async () => (await button(page, ask, "Allow").getAttribute("aria-disabled")) === "false");
    await axe(page, "list and asks");
    await row(page, session).click();
    await page.waitForSelector("#session .call");
    await axe(page, "conversation");
    await page.keyboard.press("2");
    await page.waitForSelector("#session .work h2");
    await axe(page, "changes");
    await page.keyboard.press("3");
    await page.waitForSelector("#session .work dl");
    await axe(page, "facts");
    await page.goto(`${server.origin}/#/begin`);
    await page.waitForSelector("#begin form");
    await axe(page, "form");
    agentctl("answer", ask.id, "--deny");
    await page.goto(`${server.origin}/#/`);
    await card(page, ask).getByText("No longer open").waitFor();
    await axe(page, "a settled ask");
    agentctl("stop", session, question);
    await page.context().close();
  });
}

await check("without control there is no button that acts, and one sentence says how to allow it", async () => {
  await server.kill();
  server.args = [];
  await server.start();
  const session = launch("Only look [[permit:true]] [[hang]]");
  const ask = await askOf(session);
  const page = await pairedPage(browser, server);
  await card(page, ask).waitFor();
  await page.getByText("agentctl web --allow-control").waitFor();
  assertEqual(await text(card(page, ask).locator(".where code").last()), `agentctl asks ${ask.id.slice(0, 8)}`, "the command to copy");
  for (const name of ["Allow", "Deny", "Answer", "Send", "Stop", "Launch"]) {
    assertEqual(await page.getByRole("button", { name: new RegExp(`^${name}`) }).count(), 0, `buttons ${name}`);
  }
  await row(page, session).click();
  await page.waitForSelector("#session .message");
  assertEqual(await page.locator("#session textarea:visible, #session button:visible").count(), 0, "controls in the session");
  await page.context().close();
  agentctl("stop", session);
});

// --- figures, without a bar

const p99 = (values) => values.sort((a, b) => a - b)[Math.ceil(values.length * 0.99) - 1]?.toFixed(1);

await check("look to DOM, measured", async () => {
  const page = await pairedPage(browser, server);
  await page.evaluate(() => {
    globalThis.looks = [];
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => entry.name === "look" && globalThis.looks.push(entry.duration))).observe({ entryTypes: ["measure"] });
  });
  const cwd = directory("steps");
  const steps = Array.from({ length: 40 }, (_, step) => `[[tool:: step${step}; until [ -e go${step} ]; do sleep 0.01; done]]`);
  const sessions = [launch(`Count ${steps.join(" ")} [[hang]]`, { cwd }), ...Array.from({ length: 7 }, () => launch(`Work ${"[[tool:true]] [[say:one]] ".repeat(10)}[[hang]]`))];
  const ends = [];
  for (let step = 0; step < 40; step += 1) {
    const began = performance.now();
    await page.waitForFunction((text) => document.getElementById("rows").textContent.includes(text), `step${step};`);
    if (step > 0) ends.push(performance.now() - began);
    writeFileSync(`${cwd}/go${step}`, "");
  }
  const looks = await page.evaluate(() => globalThis.looks);
  agentctl("stop", ...sessions);
  return `look received to DOM p99 ${p99(looks)} ms of ${looks.length} looks; step of an agent to DOM p99 ${p99(ends)} ms of ${ends.length} steps`;
});

await check("look to DOM with 10,000 sessions, measured", async () => {
  const session = launch("One of many [[hang]]");
  const like = await eventually("the session", () => json("list").sessions.find((one) => one.id === session));
  agentctl("stop", session);
  const rows = Array.from({ length: 10_000 }, (_, index) => ({ ...like, root: "/home", id: `${String(index).padStart(8, "0")}-many`, title: `Session ${index}` }));
  const order = rows.map((row) => `demo:${row.id}@${row.root}`);
  const event = (look) => `event: look\ndata: ${JSON.stringify({ gone: [], asks: [], faults: [], ...look })}\n\n`;
  const changes = Array.from({ length: 200 }, (_, step) => {
    const at = (step * 7919) % rows.length;
    order.unshift(...order.splice(at, 1));
    return event({ full: false, rows: [{ ...rows[at], reason: { kind: "tool", detail: `step ${step}`, until: null } }], order });
  });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await openPage(context, server);
  await page.addInitScript(() => {
    globalThis.looks = [];
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => globalThis.looks.push(entry.duration))).observe({ entryTypes: ["measure"] });
  });
  const body = event({ full: true, rows, order }) + changes.join("");
  await page.route("**/api/stream*", (route) => route.fulfill({ headers: { "content-type": "text/event-stream" }, body }));
  await page.goto(server.newLink());
  const looks = await eventually("201 looks", () => page.evaluate(() => globalThis.looks.length >= 201 && globalThis.looks.slice(0, 201)), 60);
  assertEqual(await page.locator("a.row").count(), 300, "rows of the first part");
  const [first, ...later] = looks;
  await context.close();
  return `the first look ${first.toFixed(0)} ms, then p99 ${p99(later)} ms of ${later.length} looks`;
});

await browser.close();
await server.kill();
finish("browser");
