// Checks of single cards: when a press is taken, and the words of a card that is closed.

import { agentctl, askOf, assert, assertEqual, button, card, eventually, json, launch, pairedPage, text } from "./stage.mjs";

const isEnabled = (locator) => locator.getAttribute("aria-disabled").then((value) => value === "false");

/// Waits until a button has been enabled, disabled and enabled again because its card changed its size.
async function settledAfter(page, target, change) {
  await eventually("the button is enabled", () => isEnabled(target));
  await change();
  await eventually("the card has noticed that it grew", async () => !(await isEnabled(target)));
  await eventually("the button is enabled again by itself", () => isEnabled(target));
}

/// A card that grew and then stood still takes the first press.
export async function firstPress(browser, server) {
  // Both cards fit, so that nothing is scrolled.
  const page = await pairedPage(browser, server, { viewport: { width: 1280, height: 1200 } });
  const question = launch("[[ask:Which colour?|Red|Blue]] [[hang]]");
  const asked = await askOf(question);
  const answer = button(page, asked, "Answer");
  await settledAfter(page, answer, () => answer.click());
  assertEqual(await text(card(page, asked).locator(".outcome")), "Choose an answer first.", "outcome");
  await settledAfter(page, answer, () => card(page, asked).getByLabel("Blue").check());
  assertEqual(await text(card(page, asked).locator(".outcome")), "", "outcome after a choice");
  await answer.dispatchEvent("click");
  await card(page, asked).getByText("Answered here").waitFor();

  const session = launch("[[permit:true]] [[hang]]");
  const ask = await askOf(session);
  const deny = button(page, ask, "Deny");
  await settledAfter(page, deny, () => card(page, ask).getByText("Tell the agent why not").click());
  await card(page, ask).locator("textarea").fill("no");
  await deny.dispatchEvent("click");
  await card(page, ask).getByText("Denied here").waitFor();
  agentctl("stop", question, session);
  await page.context().close();
}

/// Allow that is in view works by itself, although further options are below the screen; a refusal is read in view.
export async function allowInView(browser, server) {
  const page = await pairedPage(browser, server, { viewport: { width: 1280, height: 420 } });
  const session = launch("[[permit:true]] [[hang]]");
  const ask = await askOf(session);
  const allow = button(page, ask, "Allow");
  await allow.waitFor();
  await page.locator("#inbox").evaluate((inbox, label) => {
    const found = [...inbox.querySelectorAll("button")].find((one) => one.textContent === label);
    inbox.style.height = `${found.getBoundingClientRect().bottom - inbox.getBoundingClientRect().top}px`;
  }, "Allow");
  await eventually("Allow is enabled", () => isEnabled(allow));
  await page.route("**/api/stream*", (route) => route.abort());
  await server.kill();
  await page.locator("#banner", { hasText: "Not connected" }).waitFor();
  await allow.dispatchEvent("click");
  const outcome = card(page, ask).locator(".outcome");
  await eventually("the reason is in view", () => outcome.evaluate((one) => {
    const [inner, outer] = [one.getBoundingClientRect(), one.closest("section").getBoundingClientRect()];
    return one.textContent === "Not connected." && inner.bottom <= outer.bottom + 1 && inner.top >= outer.top;
  }));
  await server.start();
  agentctl("stop", session);
  await page.context().close();
}

/// The page that was later says what became of the ask, without the id of it.
export async function loser(browser, server) {
  const page = await pairedPage(browser, server);
  const session = launch("[[permit:true]] [[hang]]");
  const ask = await askOf(session);
  const allow = button(page, ask, "Allow");
  await eventually("Allow is enabled", () => isEnabled(allow));
  await page.route("**/api/answer", (route) => route.fulfill({ status: 404, json: { error: { code: "no_ask", message: "no open ask has the id `0`" } } }));
  await allow.click();
  await card(page, ask).locator(".dismiss").waitFor();
  const said = await text(card(page, ask).locator(".outcome"));
  assert(said.startsWith("No longer open: answered elsewhere"), said);
  agentctl("stop", session);
  await page.context().close();
}

/// A name that is given in a terminal is shown on an open page, also that of a session that has ended.
export async function named(browser, server) {
  const page = await pairedPage(browser, server);
  const [ended, live] = [launch("Bake the bread"), launch("Paint the fence [[hang]]")];
  await page.locator(`a.row[data-key^="demo:${live}@"]`).waitFor();
  await page.locator("#ended").check();
  await page.locator(`a.row[data-key^="demo:${ended}@"]`).waitFor();
  for (const [session, name] of [[live, "painter"], [ended, "baker"]]) {
    agentctl("name", session, name);
    await page.locator(`a.row[data-key^="demo:${session}@"] .title`, { hasText: `${name}: ` }).waitFor();
  }
  agentctl("stop", live);
  await page.context().close();
}

/// Two homes may hold sessions of the same id: each has a row, and every question names its home. An address without a
/// home opens the session that it means.
export async function twoHomes(browser, server) {
  const session = launch("Paint the door [[permit:true]] [[hang]]");
  const ask = await askOf(session);
  const page = await pairedPage(browser, server);
  await page.goto(`${server.origin}/#/session/demo:${session}`);
  await page.locator(`#session [data-ask="${ask.id}"]`).waitFor();
  await eventually("the address has the home", () => decodeURIComponent(page.url()).endsWith(`demo:${session}@${ask.root}`));
  const [like] = json("list").sessions.filter((one) => one.id === session);
  const rows = [like, { ...like, root: "/copy", title: "Another door" }];
  const look = { full: true, rows, gone: [], order: rows.map((row) => `demo:${session}@${row.root}`), asks: [], faults: [], names: 0 };
  const body = `event: hello\ndata: {"control":true,"home":"/"}\n\nevent: look\ndata: ${JSON.stringify(look)}\n\n`;
  await page.route("**/api/stream*", (route) => route.fulfill({ headers: { "content-type": "text/event-stream" }, body }));
  await page.goto(`${server.origin}/#/`);
  await eventually("two rows", async () => (await page.locator(`a.row[data-key^="demo:${session}@"]`).count()) === 2);
  const asked = page.waitForRequest("**/api/stream?talk=*");
  await page.locator("a.row", { hasText: "Another door" }).click();
  assertEqual(new URL((await asked).url()).searchParams.get("talk"), `demo:${session}@/copy`, "the session that is followed");
  await page.locator("#session-title", { hasText: "Another door" }).waitFor();
  agentctl("stop", session);
  await page.context().close();
}

/// The group of a session is beside its title, not a part of it: it names no session.
export async function grouped(browser, server) {
  const page = await pairedPage(browser, server);
  const session = launch("Sort the mail [[hang]]", { more: ["--group", "post"] });
  const row = page.locator(`a.row[data-key^="demo:${session}@"]`);
  await row.filter({ hasText: "Sort the mail" }).waitFor();
  assert((await text(row.locator(".title"))).startsWith("Sort the mail"), await text(row.locator(".title")));
  assert((await text(row.locator(".meta"))).includes("group post"), await text(row.locator(".meta")));
  await row.click();
  await page.locator("#session .meta", { hasText: "group post" }).first().waitFor();
  assert((await text(page.locator("#session-title"))).startsWith("Sort the mail"), "the title of the session");
  agentctl("stop", session);
  await page.context().close();
}

/// A folded call that failed or was denied says so in words, not by its colour alone.
export async function failedCall(browser, server) {
  const page = await pairedPage(browser, server);
  const session = launch("Try it [[tool:echo fine]] [[permit:touch none]] [[hang]]");
  const ask = await askOf(session);
  await page.goto(`${server.origin}/#/session/demo:${session}`);
  agentctl("answer", ask.id, "--deny", "--message", "not now");
  const failed = page.locator("#session .call.tool_error");
  await failed.waitFor();
  const words = await text(failed.locator("summary"));
  assert(words.startsWith("✗") && words.includes("touch none") && words.includes("denied: not now"), words);
  assert(!(await failed.getAttribute("open")), "it is folded");
  assert((await failed.locator("summary").ariaSnapshot()).includes("failed"), "a screen reader is told");
  assert(!(await text(page.locator("#session .call:not(.tool_error) summary").first())).includes("✗"), "a good call has no such sign");
  agentctl("stop", session);
  await page.context().close();
}
