// Checks that every line of a change is shown, whatever it holds. Only a line feed ends a line, only a line of git's own
// names a file, and no line of an ask is left out.

import { writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { agentctl, askOf, assert, assertEqual, card, directory, eventually, json, launch, openPage, pairedPage, row } from "./stage.mjs";

// What ends a line to a regular expression, but not to git.
const BREAKS = ["\r", "\u2028", "\u2029"];
/// Lines that look like the heading of a file behind a line that forges one, with each of the breaks.
const FORGED = BREAKS.flatMap((mark, number) => [`calm${mark}diff --git a/calm.txt b/calm.txt${mark}index 1..2${mark}@@ -1 +1 @@`, `++ n${number}; require("x")`, `-- gone${number}`, "index 1", "@@ later"]);

/// Counts the lines of a patch that the page shows: all but those that name each file, which are four in a patch of git.
export const shownLines = (patch, naming = 4) => patch.replace(/\n$/, "").split("\n").length - naming * (`\n${patch}`.split("\ndiff --git ").length - 1);

export async function wholeDiff(browser, server) {
  const cwd = directory("whole-diff");
  const git = (...args) => assert(spawnSync("git", ["-C", cwd, "-c", "user.name=a", "-c", "user.email=a@b", ...args]).status === 0, `git ${args[0]}`);
  git("init", "-q");
  const [kept, gone] = [FORGED.map((line) => `kept ${line}`), FORGED.map((line) => line.replace("++ n", "-- old"))];
  writeFileSync(`${cwd}/forged.txt`, `${[...kept, ...gone].join("\n")}\n`);
  writeFileSync(`${cwd}/odd b-name.txt`, "one\n");
  git("add", ".");
  git("commit", "-qm", "begin");
  writeFileSync(`${cwd}/forged.txt`, `${[...kept, ...FORGED].join("\n")}\n`);
  writeFileSync(`${cwd}/odd b-name.txt`, Buffer.from("two \xff\n", "latin1"));
  const recorded = FORGED.join("\\n").replaceAll("]]", "] ]");
  const session = launch(`Change it [[write:recorded.txt|${recorded}]] [[hang]]`, { cwd });
  const page = await pairedPage(browser, server);
  await row(page, session).waitFor();
  await eventually("the change is recorded", () => json("changes", session).files.length > 0);
  await page.goto(`${server.origin}/#/session/demo:${session}/changes`);
  const files = page.locator("#session .work details.file");
  await eventually("three files of the working tree and one of the record", async () => (await files.count()) === 4);
  const names = await files.locator("summary bdi").evaluateAll((all) => all.map((one) => one.textContent));
  assertEqual(names.join(), "forged.txt,odd b-name.txt,recorded.txt,recorded.txt", "names of the files");
  const patch = agentctl("diff", session, "--patch");
  const own = files.locator(".line");
  const ofTree = await page.locator("#session .work h2", { hasText: "Recorded" }).evaluate((heading) => [...document.querySelectorAll("#session .work .line")].filter((line) => heading.compareDocumentPosition(line) & Node.DOCUMENT_POSITION_PRECEDING).length);
  assertEqual(ofTree, shownLines(patch), "lines of the working tree");
  const told = json("changes", session, "--patch").patches.map((one) => one.patch).join("");
  assertEqual(await own.count(), shownLines(patch) + shownLines(told, 3), "lines of the tree and of the record");
  const shown = await own.evaluateAll((all) => all.map((one) => `${one.className}: ${one.textContent}`));
  for (const number of BREAKS.keys()) {
    const added = shown.filter((line) => line === `line added: +++ n${number}; require("x")`);
    assertEqual(added.length, 3, "a line that begins with ++, in two files of the tree and in the record");
    assert(shown.includes(`line removed: −-- old${number}; require("x")`), "a removed line that begins with -- is not shown");
  }
  agentctl("stop", session);
  await page.context().close();
}

/// Nothing of an ask is left out: the parts of Codex are in a form of its own, without headings of git.
export async function wholeAsk(browser, server) {
  const session = launch("[[permit:true]] [[hang]]");
  const ask = await askOf(session);
  const lines = ["*** Update File: x", "--- never drop", "+++ ", "index 1", ...FORGED, "diff --git a/x b/x", "--- a/x", "@@ later", "+1"];
  ask.parts = [{ kind: "diff", path: "x", unified: `${lines.join("\n")}\n`, cut: false }];
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await openPage(context, server);
  const look = { full: true, rows: [], gone: [], order: [], asks: [ask], faults: [], names: 0 };
  await page.route("**/api/stream*", (route) => route.fulfill({ headers: { "content-type": "text/event-stream" }, body: `event: hello\ndata: {"control":true,"home":"/"}\n\nevent: look\ndata: ${JSON.stringify(look)}\n\n` }));
  await page.goto(server.newLink());
  await card(page, ask).waitFor();
  const shown = await card(page, ask).locator(".line").evaluateAll((all) => all.map((one) => one.textContent));
  const escaped = (line) => line.replace(/[\r\u2028\u2029]/g, (mark) => (mark === "\r" ? "\\x0d" : `\\u{${mark.codePointAt(0).toString(16)}}`));
  assertEqual(shown.join("\n"), lines.map(escaped).map((line) => line.replace(/^-/, "−")).join("\n"), "lines of the ask");
  agentctl("stop", session);
  await context.close();
}
