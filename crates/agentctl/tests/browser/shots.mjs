// The pictures of the documentation: the page on a desktop and on a phone, with demo agents.
//   shots.mjs FOLDER

import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { Server, askOf, assert, check, directory, eventually, finish, launch, openBrowser, pairedPage, row } from "./stage.mjs";

const folder = process.argv[2];
const LARGEST = 200 * 1024;
mkdirSync(folder, { recursive: true });

const shop = directory("shop");
const git = (...args) => assert(spawnSync("git", ["-C", shop, "-c", "user.name=ada", "-c", "user.email=ada@example.com", ...args]).status === 0, `git ${args[0]}`);
git("init", "-q");
writeFileSync(`${shop}/login.css`, ".login {\n  width: 480px;\n}\n");
git("add", ".");
git("commit", "-qm", "begin");

const server = await Server.start("--allow-control");
launch("Move the router to axum [[say:I read the routes first.]] [[tool:sleep 600]]", { cwd: directory("router"), more: ["--name", "router"] });
launch("Summarise the meeting notes [[say:Three decisions, two open questions.]]", { cwd: directory("notes"), more: ["--keep"] });
launch("Restyle the landing page [[ask:Which colour should the button have?|Red|Blue]]", { cwd: directory("site") });
const login = launch(
  "Fix the login form on small screens [[say:The form has a **fixed width** of `480px`, so it overflows on a phone. I make it fluid and run the tests.]] [[write:login.css|.login {\\n  width: min(480px, 100%);\\n}]] [[say:Next I would like to run the tests.]] [[permit:npm test -- login]] [[hang]]",
  { cwd: shop },
);
await askOf(login);

const browser = await openBrowser();
async function picture(name, options, route) {
  await check(`${name}.png`, async () => {
    const page = await pairedPage(browser, server, options);
    await row(page, login).waitFor();
    await page.locator("#notify").waitFor();
    if (route) await page.goto(`${server.origin}/${route}`);
    if (route) await page.locator("#session .call summary").first().click();
    // The conversation begins with a whole message below the head, and not in the middle of a line.
    if (route) await page.evaluate(() => {
      const head = document.querySelector("#session > header").getBoundingClientRect().bottom + 12;
      const first = [...document.querySelectorAll("#session .message")].find((one) => one.getBoundingClientRect().bottom > head);
      document.querySelector("#session").scrollTop += first.getBoundingClientRect().top - head;
    });
    await page.locator("button.allow[aria-disabled=false]:visible").first().waitFor();
    await eventually("no button in view is pale", () => page.evaluate(() => [...document.querySelectorAll("button[aria-disabled=true]")].every((one) => !one.checkVisibility() || one.getBoundingClientRect().bottom > innerHeight)));
    const path = `${folder}/${name}.png`;
    await page.screenshot({ path });
    const { size } = statSync(path);
    assert(size <= LARGEST, `${size} bytes`);
    await page.context().close();
    return `${size} bytes`;
  });
}
await picture("web", { viewport: { width: 1280, height: 880 }, colorScheme: "light" }, `#/session/demo:${login}`);
await picture("web-phone", { viewport: { width: 390, height: 844 }, colorScheme: "dark" });
await browser.close();
await server.kill();
finish("pictures");
