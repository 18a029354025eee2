// Checks that the page shows the whole of what is decided, and nothing that is no longer true.

import { agentctl, askOf, assert, assertEqual, button, card, directory, eventually, json, launch, pairedPage, row, text } from "./stage.mjs";

const isEnabled = (locator) => locator.getAttribute("aria-disabled").then((value) => value === "false");

/// The rule of an ask keeps its lines, is never pale, and is stored only once its end was in view.
export async function rulesInFull(browser, server) {
  const page = await pairedPage(browser, server, { viewport: { width: 700, height: 420 } });
  const lines = launch("[[permit:echo ok # all is well\nrm -rf /tmp/none  such]] [[hang]]");
  const ask = await askOf(lines);
  const rule = ask.choices.find(({ key }) => key.startsWith("always")).rule;
  assert(rule.includes("\n") || rule.includes("\\n"), `the rule of the demo agent: ${rule}`);
  const shown = card(page, ask).locator(".rule");
  assertEqual(await shown.innerText(), rule, "the rule on the screen");
  assert((await card(page, ask).locator(".always").first().innerText()).startsWith("Rule\n"), "the box of the rule has no caption");
  assertEqual(await shown.evaluate((one) => getComputedStyle(one).whiteSpaceCollapse), "preserve", "blanks of the rule");

  const long = launch(`[[permit:true; : ${"line ".repeat(350)}]] [[hang]]`);
  const asked = await askOf(long);
  const store = card(page, asked).locator(".store");
  await store.waitFor();
  const opacity = await card(page, asked).locator(".rule").evaluate((one) => {
    let least = 1;
    for (let element = one; element; element = element.parentElement) least = Math.min(least, Number(getComputedStyle(element).opacity));
    return least;
  });
  assertEqual(opacity, 1, "opacity of a rule whose button does not work");
  await card(page, asked).locator(".buttons").scrollIntoViewIfNeeded();
  await eventually("Allow is enabled", () => isEnabled(card(page, asked).locator(".allow")));
  assertEqual(await store.getAttribute("aria-disabled"), "true", "the button of a rule whose end is below the screen");
  await card(page, asked).locator(".rule").click({ position: { x: 20, y: 20 } });
  assertEqual(await text(card(page, asked).locator(".outcome")), "", "what a tap on the text of a rule does");
  await store.scrollIntoViewIfNeeded();
  await eventually("the rule can be stored", () => isEnabled(store));
  await store.click();
  await card(page, asked).getByText("Allowed, rule stored here").waitFor();

  // A session opens at the end of its card: the rule was seen, what is asked was not.
  const end = launch(`[[permit:true; : ${"line ".repeat(350)}]] [[hang]]`);
  const seen = await askOf(end);
  await page.goto(`${server.origin}/#/session/demo:${end}`);
  const inSession = page.locator(`#session [data-ask="${seen.id}"]`);
  await inSession.locator(".store").scrollIntoViewIfNeeded();
  await inSession.locator(".store").dispatchEvent("click");
  await inSession.getByText("Read what is asked to its end first.").waitFor();
  await inSession.locator(".buttons").scrollIntoViewIfNeeded();
  await eventually("the rule can be stored", () => isEnabled(inSession.locator(".store")));
  assertEqual((await text(inSession.locator(".outcome"))).trim(), "", "the refusal afterwards");
  agentctl("stop", lines, long, end);
  await page.context().close();
}

/// A refusal of a press is taken back when its reason is gone.
export async function notHeld(browser, server) {
  const page = await pairedPage(browser, server);
  const session = launch("[[permit:true]] [[hang]]");
  const ask = await askOf(session);
  const [allow, outcome] = [button(page, ask, "Allow"), card(page, ask).locator(".outcome")];
  await eventually("Allow is enabled", () => isEnabled(allow));
  await server.kill();
  await page.locator("#banner", { hasText: "Not connected" }).waitFor();
  await allow.dispatchEvent("click");
  assertEqual(await text(outcome), "Not connected.", "the refusal");
  await server.start();
  await page.locator("#banner").waitFor({ state: "hidden" });
  await eventually("the refusal is gone", async () => (await text(outcome)).trim() === "");
  await eventually("Allow is enabled", () => isEnabled(allow));
  const said = await card(page, ask).evaluate((element) => {
    element.before(document.createElement("hr"));
    element.querySelector(".allow").click();
    return element.querySelector(".outcome").textContent;
  });
  assertEqual(said, "The card has just moved. Press again.", "the refusal of a press on a card that moves");
  await eventually("the refusal is gone", async () => (await text(outcome)).trim() === "");
  agentctl("stop", session);
  await page.context().close();
}

/// A settled card has no deadline any more, and says in the past tense what the agent was seen to do.
export async function settledInPast(browser, server) {
  const page = await pairedPage(browser, server);
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const session = launch("[[permit:true]] [[hang]]");
  const ask = await askOf(session);
  await page.evaluate(async ([ask, until]) => {
    const [{ Card }, { byId }] = [await import("/ask.js"), await import("/dom.js")];
    const board = { session: () => null, control: () => true, connected: () => true, counted: () => {} };
    const card = new Card(board, { ...ask, id: "1", until, then: "denied" });
    byId("cards").append(card.element);
    card.moved();
  }, [ask, until]);
  const timed = page.locator('[data-ask="1"]');
  await timed.getByText("Open until").waitFor();
  await page.route("**/api/answer", (route) => route.fulfill({ json: { moved: { says: "it is running: shell: echo hi" } } }));
  await eventually("Deny is enabled", () => isEnabled(timed.locator(".deny")));
  await timed.locator(".deny").click();
  await timed.getByText("Denied here: then it was running: shell: echo hi.").waitFor();
  assertEqual(await timed.getByText("Open until").count(), 0, "deadlines of a settled card");
  agentctl("stop", session);
  await page.context().close();
}

/// "Stopped." is said above the composer, and goes when another view is shown and when the session goes on.
export async function restarted(browser, server) {
  const page = await pairedPage(browser, server);
  const session = launch("Stop and go on [[say:here]] [[hang]]");
  await row(page, session).click();
  const notice = page.locator("#session .notice", { hasText: "Stopped." });
  const stop = async () => {
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator("dialog").getByRole("button", { name: "Stop" }).click();
    await notice.waitFor();
    await row(page, session).waitFor({ state: "detached" });
  };
  await stop();
  await page.locator("#message").waitFor();
  const places = await page.evaluate(() => ["#session .talk > .notice:not([hidden])", ".composer"].map((one) => document.querySelector(one).getBoundingClientRect()).map(({ top, bottom }) => [top, bottom]));
  assert(places[0][1] <= places[1][0], `the notice covers the composer: ${JSON.stringify(places)}`);
  await page.locator("#session .tabs a").nth(2).click();
  await notice.waitFor({ state: "hidden" });
  await page.locator("#session .tabs a").first().click();
  assertEqual(await page.locator("#session .notice:visible").count(), 0, "notices after another view");
  agentctl("send", session, "go on [[hang]]");
  await row(page, session).waitFor();
  await stop();
  agentctl("send", session, "and on [[hang]]");
  await row(page, session).waitFor();
  await notice.waitFor({ state: "hidden" });
  agentctl("stop", session);
  await page.context().close();
}

/// The form keeps its values while another view is shown, until it was launched; a hint names the label of a field.
export async function keptForm(browser, server) {
  const page = await pairedPage(browser, server);
  const begin = () => page.locator("#begin-link").click();
  await begin();
  await page.locator("[name=adapter]").selectOption("demo");
  await page.locator("[name=prompt]").fill("Keep this [[hang]]");
  await page.locator("[name=cwd]").fill("/nowhere");
  await page.getByRole("button", { name: "Launch" }).click();
  await page.locator("#begin .notice", { hasText: "name another directory with “Directory”" }).waitFor();
  await page.goto(`${server.origin}/#/`);
  await page.waitForSelector("body[data-view=home]");
  await begin();
  assertEqual(await page.locator("[name=prompt]").inputValue(), "Keep this [[hang]]", "the prompt after another view");
  const cwd = directory("kept-form");
  await page.locator("[name=cwd]").fill(cwd);
  await page.getByRole("button", { name: "Launch" }).click();
  await page.waitForSelector("body[data-view=session]");
  await page.locator("#begin-link").click();
  await page.locator("#begin form").waitFor();
  assertEqual(await page.locator("[name=prompt]").inputValue(), "", "the prompt after the launch");
  agentctl("stop", json("list").sessions.find((one) => one.cwd === cwd).id);
  await page.context().close();
}

/// A question for a diff is called off when another view is shown.
export async function abortedDiff(browser, server) {
  const page = await pairedPage(browser, server);
  const session = launch("Compare it [[hang]]");
  await row(page, session).click();
  await page.route("**/api/diff*", () => {});
  for (const leave of [() => page.locator("#session .tabs a").first().click(), () => page.goto(`${server.origin}/#/`)]) {
    const [asked] = await Promise.all([page.waitForRequest("**/api/diff*"), page.goto(`${server.origin}/#/session/demo:${session}/changes`)]);
    const ended = page.waitForEvent("requestfailed", (request) => request === asked);
    await leave();
    await ended;
  }
  agentctl("stop", session);
  await page.context().close();
}

/// The help is opened and closed by keys and turns nothing off by itself; it opens also while the other keys are off.
export async function helpByKeys(browser, server) {
  const page = await pairedPage(browser, server);
  const dialog = page.locator("dialog");
  const open = async () => {
    await page.locator("body").press("?");
    await dialog.waitFor();
  };
  await open();
  await page.keyboard.press("Space");
  await dialog.waitFor({ state: "hidden" });
  assertEqual(await page.evaluate(() => localStorage.length), 0, "keys that were turned off");
  await open();
  await dialog.getByLabel("Keys of one letter").uncheck();
  await page.keyboard.press("Escape");
  await page.keyboard.press("n");
  assertEqual(await page.evaluate(() => document.body.dataset.view), "home", "view after a key that is off");
  await open();
  await dialog.getByLabel("Keys of one letter").check();
  await page.keyboard.press("Escape");
  await page.context().close();
}
