// The page behind an https proxy: only there it offers to keep the token on the device.

import { request } from "node:http";
import { assert, assertEqual } from "./stage.mjs";

const HOST = "box.example";

/// Stands in for the proxy: passes a request of the browser on to the server, with the name of the proxy as its host.
function proxy(server) {
  return async (route) => {
    const asked = route.request();
    const headers = { ...(await asked.allHeaders()), host: HOST };
    const { pathname, search } = new URL(asked.url());
    const options = { host: "127.0.0.1", port: server.port, method: asked.method(), path: pathname + search, headers };
    const answer = await new Promise((resolve, reject) => {
      const sent = request(options, (got) => {
        let body = "";
        const done = () => resolve({ status: got.statusCode, headers: got.headers, body });
        got.on("data", (data) => {
          body += data;
          // A browser that is served this way gets whole bodies only: the stream is cut behind its first event.
          if (pathname === "/api/stream" && body.includes("\n\n")) {
            done();
            sent.destroy();
          }
        });
        got.on("end", done);
      });
      sent.on("error", reject);
      sent.end(asked.postData() ?? undefined);
    });
    delete answer.headers["transfer-encoding"];
    delete answer.headers["content-length"];
    await route.fulfill(answer).catch(() => {});
  };
}

export async function keeps(browser, server) {
  const context = await browser.newContext();
  await context.route(`https://${HOST}/**`, proxy(server));
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const code = server.newLink().split("#k=")[1];
  await page.goto(`https://${HOST}/#k=${code}`);
  await page.getByLabel("Keep on this device for 30 days").check();
  assert(!page.url().includes("k="), `the address holds the code: ${page.url()}`);
  await page.getByRole("button", { name: "Pair this browser" }).click();
  await page.waitForSelector("body[data-view=home]");
  const kept = await page.evaluate(() => [sessionStorage.length, JSON.parse(localStorage.getItem("agentctl.token")).until]);
  assertEqual(kept[0], 0, "tokens of the tab");
  const days = (Date.parse(kept[1]) - Date.now()) / 86_400_000;
  assert(days > 29 && days <= 30, `kept for ${days} days`);
  const other = await context.newPage();
  await other.goto(`https://${HOST}/`);
  await other.waitForSelector("body[data-view=home]");
  assertEqual((await context.cookies()).length, 0, "cookies");
  await context.close();
}
