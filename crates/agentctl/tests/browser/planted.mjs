// A server that an agent has started on another port of the same machine. It receives no token, no code, no cookie and
// no address of the page, whatever a person does with the page beside it.

import { createServer } from "node:http";
import { agentctl, assert, assertEqual, launch, pairedPage, row } from "./stage.mjs";

export async function planted(browser, server) {
  const received = [];
  const listener = createServer((request, answer) => {
    let body = "";
    request.on("data", (data) => (body += data));
    request.on("end", () => {
      received.push(JSON.stringify([request.method, request.url, request.rawHeaders, body]));
      answer.writeHead(200, { "content-type": "text/html", "access-control-allow-origin": "*", "access-control-allow-headers": "*" });
      answer.end(`<!doctype html><title>planted</title><p>planted`);
    });
  });
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${listener.address().port}`;

  const page = await pairedPage(browser, server);
  const secret = await page.evaluate(() => JSON.parse(sessionStorage.getItem("agentctl.token")).token);
  assert(secret.length > 20, "the page has a token");
  const session = launch(`See ${origin}/bait [[say:Read ${origin}/link and ![x](${origin}/image.png) please]] [[hang]]`);
  await row(page, session).click();
  const link = page.locator("#session .message.assistant a").first();
  await link.waitFor();
  // The person opens the link that the agent wrote.
  const [opened] = await Promise.all([page.context().waitForEvent("page"), link.click()]);
  await opened.waitForLoadState();
  assertEqual(opened.url(), `${origin}/link`, "the opened address");
  const seen = await opened.evaluate(() => [document.cookie, document.referrer, String(window.opener), sessionStorage.length, localStorage.length]);
  assertEqual(JSON.stringify(seen), JSON.stringify(["", "", "null", 0, 0]), "what the planted page has");
  // The planted page tries the routes, with and without what it could have.
  const tried = await opened.evaluate(async (target) => {
    const outcomes = [];
    for (const path of ["/api/sessions", "/api/asks", "/api/begin", "/api/stream"]) {
      for (const mode of ["cors", "no-cors"]) {
        const outcome = await fetch(target + path, { mode, credentials: "include" }).then((answer) => `${answer.type} ${answer.status}`, () => "refused");
        outcomes.push(outcome);
      }
    }
    const posted = await fetch(`${target}/api/answer`, { method: "POST", mode: "no-cors", body: "{}" }).then((answer) => answer.type, () => "refused");
    return [...outcomes, posted];
  }, server.origin);
  assert(tried.every((one) => one === "refused" || one === "opaque" || one === "opaque 0"), `the planted page read: ${tried}`);
  // A frame of the page is refused too.
  const framed = await opened.evaluate(async (target) => {
    const frame = document.createElement("iframe");
    frame.src = target;
    document.body.append(frame);
    await new Promise((resolve) => (frame.onload = resolve));
    try {
      return frame.contentDocument === null ? "closed" : frame.contentDocument.body.textContent;
    } catch {
      return "closed";
    }
  }, server.origin);
  assert(framed === "closed" || framed === "", `the page stands in a frame: ${framed}`);
  await opened.close();
  const all = received.join("\n");
  assert(received.length >= 1 && all.includes("/link"), "the planted server was visited");
  for (const word of [secret, "#k=", "agentctl.token", server.origin, "Bearer", "cookie"]) {
    const holds = received.filter((one) => one.toLowerCase().includes(word.toLowerCase()));
    assert(holds.length === 0, `the planted server received ${word}: ${holds[0]}`);
  }
  assert(!all.includes("image.png"), "an image of a message was fetched");
  agentctl("stop", session);
  await page.context().close();
  listener.close();
  return `${received.length} requests, none with a secret`;
}
