// Checks of answers that come late or not at all: nothing of them is shown in another session, and an order that may have
// arrived is not called failed.

import { agentctl, askOf, assert, assertEqual, button, card, directory, eventually, json, launch, pairedPage, row, text } from "./stage.mjs";

/// Holds the requests of an order back. Returns a function that lets them go on, or answers them.
async function heldBack(page, order) {
  const held = [];
  await page.route(`**/api/${order}`, (route) => held.push(route));
  return async (act = (route) => route.continue()) => {
    await eventually(`a request for ${order}`, () => held.length > 0);
    const answered = page.waitForResponse(`**/api/${order}`);
    await act(held.shift());
    await (await answered).finished();
    // Two frames: whatever the page makes of the answer is shown by then.
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  };
}

/// Goes to a session as a person does, by its row.
async function goTo(page, session, title) {
  await row(page, session).click();
  await page.locator("#session-title", { hasText: title }).waitFor();
}

const notices = (page) => page.locator("#session .notice:visible");

/// A session that is stopped says so in its own view only.
export async function lateStop(browser, server) {
  const page = await pairedPage(browser, server);
  const [one, two] = [launch("Stop this one [[hang]]"), launch("Keep this one [[hang]]")];
  await row(page, two).waitFor();
  await goTo(page, one, "Stop this one");
  const release = await heldBack(page, "stop");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator("dialog").getByRole("button", { name: "Stop" }).click();
  await notices(page).getByText("Stopping…").waitFor();
  await goTo(page, two, "Keep this one");
  await release();
  assertEqual(await notices(page).count(), 0, "notices in the other session");
  await page.goto(`${server.origin}/#/session/demo:${one}`);
  await page.locator("#session .status.stopped, #session .status.error").waitFor();
  agentctl("stop", two);
  await page.context().close();
}

/// A list of ended sessions that comes after its box was cleared is not shown.
export async function lateEnded(browser, server) {
  const session = launch("Ended before [[say:done]]");
  await eventually("it has ended", () => json("status", session).status === "stopped");
  const page = await pairedPage(browser, server);
  const release = await heldBack(page, "sessions*");
  await page.locator("#ended").check();
  await page.locator("#ended").uncheck();
  await release();
  assertEqual(await row(page, session).count(), 0, "rows of ended sessions that are not wanted");
  await page.locator("#ended").check();
  await release();
  await row(page, session).waitFor();
  await page.context().close();
}

/// A message that is on its way neither blocks nor empties the field of another session, and one that was not sent is
/// still there, with the reason, when the person comes back.
export async function lateSend(browser, server) {
  const page = await pairedPage(browser, server);
  const [one, two] = ["Take the first", "Take the second"].map((title) => launch(`${title} [[say:here]]`, { more: ["--keep"] }));
  const field = page.locator("#message");
  const send = page.getByRole("button", { name: "Send" });
  const open = async (session, title) => {
    await goTo(page, session, title);
    await page.locator("#session .status.idle").waitFor();
  };
  await row(page, two).waitFor();
  const release = await heldBack(page, "send");
  const refusal = { status: 409, json: { error: { code: "conflict", message: "the field is closed" } } };

  await open(one, "Take the first");
  await field.fill("for the first");
  await send.click();
  await open(two, "Take the second");
  await field.fill("a draft for the second");
  await release((route) => route.fulfill(refusal));
  assertEqual(await field.inputValue(), "a draft for the second", "the draft of the other session after a refusal");
  assertEqual(await notices(page).count(), 0, "notices in the other session");

  await open(one, "Take the first");
  assertEqual(await field.inputValue(), "for the first", "the message that was not sent");
  assert((await text(notices(page))).includes("Not sent: the field is closed"), "the reason is not shown");
  await send.click();
  await open(two, "Take the second");
  assertEqual(await field.inputValue(), "a draft for the second", "the draft of the other session");
  // The other session's message is sent while the first one is still on its way.
  await send.click();
  await release();
  assertEqual(await field.inputValue(), "a draft for the second", "the field of a message that is on its way");
  await field.fill("written meanwhile");
  await release();
  assertEqual(await field.inputValue(), "written meanwhile", "words that were written while a message was on its way");
  await page.locator("#session .lines").getByText("a draft for the second").first().waitFor();

  await goTo(page, one, "Take the first");
  await page.locator("#session .lines").getByText("for the first").first().waitFor();
  assertEqual(await field.inputValue(), "", "the field after its message was sent");
  assertEqual(await notices(page).count(), 0, "notices after the message was sent");
  agentctl("stop", one, two);
  await page.context().close();
}

/// An order whose answer was lost may have been carried out: the page says so, and gives it again only when asked to.
export async function lostAnswers(browser, server) {
  const page = await pairedPage(browser, server);
  const session = launch("Take it once [[say:here]]", { more: ["--keep"] });
  await row(page, session).waitFor();
  await goTo(page, session, "Take it once");
  await page.locator("#session .status.idle").waitFor();
  const [field, send] = [page.locator("#message"), page.getByRole("button", { name: "Send", exact: true })];
  let [orders, failure] = [0, (route) => route.abort()];
  await page.route("**/api/send", (route) => {
    orders += 1;
    return failure(route);
  });
  const says = (words) => eventually(`the notice says: ${words}`, async () => (await text(page.locator("#session .notice:visible"))).includes(words));
  await field.fill("once");
  await send.click();
  await says("Perhaps sent: agentctl web does not answer; whether it arrived is not known: look before you try again");
  assertEqual(await field.inputValue(), "once", "the text that may have been sent");
  await send.click();
  await page.locator("dialog").getByRole("button", { name: "Cancel" }).click();
  assertEqual(orders, 1, "orders after a second press");
  failure = (route) => route.fulfill({ status: 500, json: { error: { code: "unclear", message: "its record does not hold it", hint: "look first" } } });
  await send.click();
  await page.locator("dialog").getByRole("button", { name: "Send again" }).click();
  await says("Perhaps sent: its record does not hold it (look first)");
  failure = (route) => route.fulfill({ status: 500, json: { error: { code: "failed", message: "the disk is full" } } });
  await field.fill("another text");
  await send.click();
  await says("Not sent: the disk is full");
  assertEqual(orders, 3, "orders");

  await page.goto(`${server.origin}/#/`);
  const asking = launch("[[permit:true]] [[hang]]");
  const ask = await askOf(asking);
  const deny = button(page, ask, "Deny");
  await eventually("Deny is enabled", async () => (await deny.getAttribute("aria-disabled")) === "false");
  await page.route("**/api/answer", (route) => route.abort());
  await deny.click();
  const outcome = card(page, ask).locator(".outcome");
  await eventually("the card does not say that the answer failed", async () => (await text(outcome)).startsWith("Perhaps taken: "));
  agentctl("answer", ask.id, "--deny");
  await card(page, ask).locator(".dismiss").waitFor();
  assert((await text(outcome)).startsWith("No longer open: answered here, perhaps, or elsewhere."), await text(outcome));

  await page.goto(`${server.origin}/#/begin`);
  await page.waitForSelector("#begin form");
  const rights = await page.locator("[name=permissions] option").evaluateAll((all) => all.map((one) => `${one.value}=${one.textContent}`));
  assertEqual(String(rights), "=as configured (default),default=the agent’s own setting,edits=edits", "permissions");
  const cwd = directory("lost");
  await page.locator("[name=adapter]").selectOption("demo");
  await page.locator("[name=prompt]").fill("Begin once [[hang]]");
  await page.locator("[name=cwd]").fill(cwd);
  await page.route("**/api/launch", async (route) => {
    await route.fetch();
    await route.abort();
  });
  const begin = page.getByRole("button", { name: "Launch", exact: true });
  await begin.click();
  await page.locator("#begin .notice", { hasText: "Perhaps launched: agentctl web does not answer" }).waitFor();
  await begin.click();
  await page.locator("dialog").getByRole("button", { name: "Cancel" }).click();
  const begun = json("list").sessions.filter((one) => one.cwd === cwd).map((one) => one.id);
  assertEqual(begun.length, 1, "sessions that were begun");
  agentctl("stop", session, asking, ...begun);
  await page.context().close();
}
