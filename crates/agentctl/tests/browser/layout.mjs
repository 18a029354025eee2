// Checks of sizes and places: nothing is wider than the screen, every target is large, every sentence is in view.

import { agentctl, askOf, assert, assertEqual, button, card, directory, eventually, launch, pairedPage, row } from "./stage.mjs";

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
const isWithin = (locator) => locator.evaluate((element) => {
  const { top, bottom, height } = element.getBoundingClientRect();
  return height > 0 && top >= 0 && bottom <= innerHeight && element.contains(document.elementFromPoint(innerWidth / 2, (top + bottom) / 2));
});

/// A long directory, title and command widen no page.
export async function fits(browser, server) {
  const long = "a-directory-with-a-long-name".repeat(4);
  const cwd = directory(`${long}/${long}`);
  const session = launch(`${"Averylongwordofatitle".repeat(8)} [[permit:echo ${"x".repeat(600)} ${"word ".repeat(80)}]] [[hang]]`, { cwd });
  const ask = await askOf(session);
  for (const width of [320, 390, 760]) {
    const page = await pairedPage(browser, server, { viewport: { width, height: 844 } });
    await card(page, ask).waitFor();
    for (const route of ["#/", `#/session/demo:${session}`, `#/session/demo:${session}/facts`, "#/begin"]) {
      await page.goto(`${server.origin}/${route}`);
      await page.locator({ "#/": "#cards .card", "#/begin": "#begin form" }[route] ?? (route.endsWith("facts") ? "#session dl" : "#session .card")).first().waitFor();
      const wide = await page.evaluate(() => [document.documentElement, ...document.querySelectorAll("section")].map((one) => one.scrollWidth - one.clientWidth).find((more) => more > 0) ?? 0);
      assertEqual(wide, 0, `pixels beyond the screen at ${width}, ${route}`);
    }
    await page.context().close();
  }
  agentctl("stop", session);
}

/// Returns the targets of a page that a finger hits badly.
const smallTargets = (page) => page.evaluate(() => [...document.querySelectorAll("button, select, input, textarea, summary, label.check, label.option, .button, .tabs a, .back, .brand, #count, a.row")]
  .filter((one) => one.checkVisibility() && !one.closest(".unseen, .call:not(.full)") && !(one.matches("[type=checkbox], [type=radio]") && one.closest("label")))
  .map((one) => [one, one.getBoundingClientRect()])
  // A row below the screen is not laid out.
  .filter(([, { height }]) => height > 0)
  .filter(([one, { width, height }]) => height < 48 || (one.matches("button, .button") && width < 44))
  .map(([one, { width, height }]) => `${one.tagName.toLowerCase()}.${one.className}#${one.id} ${Math.round(width)}x${Math.round(height)} ${one.textContent.slice(0, 20)}`));

/// On a phone every target is at least 48 pixels high.
export async function targets(browser, server) {
  const phone = await pairedPage(browser, server, PHONE);
  const session = launch("Touch it [[say:one]] [[tool:echo one]] [[permit:true]] [[hang]]");
  const question = launch("[[ask:Which colour?|Red|Blue]]");
  const [ask, other] = [await askOf(session), await askOf(question)];
  await card(phone, ask).waitFor();
  await card(phone, other).waitFor();
  const large = async (where) => {
    const small = await smallTargets(phone);
    assert(small.length === 0, `${where}: ${small.join("; ")}`);
  };
  await large("inbox and list");
  agentctl("answer", ask.id, "--deny");
  await card(phone, ask).locator(".dismiss").waitFor();
  await large("a settled card");
  await phone.locator("#help").tap();
  await phone.locator("dialog").waitFor();
  await large("help");
  await phone.locator("dialog button").tap();
  await row(phone, session).tap();
  await phone.locator("#session .call").first().waitFor();
  await large("conversation");
  await phone.goto(`${server.origin}/#/begin`);
  await phone.locator("#begin details summary").tap();
  await large("form");
  agentctl("stop", session, question);
  await phone.context().close();
}

/// A lost connection, and an ask that is closed, are told where the person looks.
export async function toldInView(browser, server) {
  const phone = await pairedPage(browser, server, PHONE);
  const sessions = Array.from({ length: 6 }, (_, index) => launch(`Scroll ${index} [[permit:true]] [[hang]]`));
  const asks = [];
  for (const session of sessions) asks.push(await askOf(session));
  await card(phone, asks.at(-1)).waitFor();
  const down = () => phone.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
  await down();
  await phone.goto(`${server.origin}/#/ask/00000000`);
  await eventually("the sentence about a closed ask is in view", () => isWithin(phone.locator("#stale")));
  await down();
  await server.kill();
  await eventually("the banner is in view", () => isWithin(phone.locator("#banner")));
  await server.start();
  await phone.locator("#banner").waitFor({ state: "hidden" });
  agentctl("stop", ...sessions);
  await phone.context().close();
}

/// After Stop the page says so in view, also below a long conversation, and the ask says that the session has ended.
export async function stoppedInView(browser, server) {
  const page = await pairedPage(browser, server);
  const session = launch(`Talk ${"[[say:A sentence of some length.]] ".repeat(60)} [[permit:true]] [[hang]]`);
  const ask = await askOf(session);
  await page.goto(`${server.origin}/#/session/demo:${session}`);
  await page.locator("#session .card").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator("dialog").getByRole("button", { name: "Stop" }).click();
  const notice = page.locator("#session .talk > .notice", { hasText: "Stopped." });
  await notice.waitFor();
  await page.locator("#session .status.stopped, #session .status.error").waitFor();
  await page.locator("#session .card").getByText("the session has ended").waitFor();
  assert(await isWithin(notice), "the notice is out of view");
  await page.goto(`${server.origin}/#/`);
  await card(page, ask).getByText("No longer open: the session has ended.").waitFor();
  await button(page, ask, "Dismiss").click();
  await page.context().close();
}
