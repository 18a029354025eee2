// What a session has done: its changed files, and the facts behind its status.

import { ageOf, fill, folder, h, linked, linesOf, patchLines, span } from "./dom.js";
import { get, wordsOf } from "./net.js";

const MOST_LINES = 3000;
const note = (text) => h("p.note", text);
const several = (what, names) => names.length > 0 && note(`${what}: ${names.join(", ")}`);
const counts = ({ added, removed }) => h("span", h("span.s-added", `+${added ?? "?"}`), " ", h("span.s-removed", `−${removed ?? "?"}`));

// Shows the answers to questions below each other, unless the person has gone on meanwhile.
async function show(element, parts) {
	leave(element);
	const turn = (element.turn = new AbortController());
	fill(element, h("p.empty", "Reading…"));
	const shown = await Promise.all(parts.map(([, path, values, paint]) => get(path, values, turn.signal).then(paint).catch((refusal) => note(wordsOf(refusal)))));
	if (!turn.signal.aborted) fill(element, parts.map(([title], index) => [h("h2", title), shown[index]]));
}

// Ends the questions whose answers are not shown any more.
export const leave = (element) => element.turn?.abort();

export function showChanges(element, id) {
	show(element, [
		["In the working tree", "/api/diff", { id, patch: true }, ({ diffs }) => diffs.map(oneDiff)],
		["Recorded by the agent", "/api/changes", { id, patch: true }, recorded],
	]);
}

// How the base is known, in the words of `agentctl diff`.
const BASES = { given: "as given", worktree_ref: "the base of the worktree", run: "recorded by its run", reflog: "HEAD when the session started, by git’s reflog", head: "HEAD now: no source says where the work began" };

function oneDiff(diff) {
	// A patch that is not UTF-8 comes as its bytes.
	const patch = Array.isArray(diff.patch) ? new TextDecoder().decode(new Uint8Array(diff.patch)) : diff.patch;
	return [
		h("p.meta", folder(diff.directory), diff.branch && h("code", diff.branch), h("span", `since ${diff.base.slice(0, 8)} (${BASES[diff.base_from] ?? diff.base_from})`), counts(diff)),
		several("Other sessions worked in the same tree", diff.shared_with),
		several("Submodules with changes of their own", diff.dirty_submodules),
		diff.gaps.map(note),
		diff.files.length === 0 && h("p.empty", "Nothing has changed."),
		patch ? byFile(patch) : diff.files.map((file) => h("p.path", h("bdi", file.path), " ", counts(file))),
	];
}

// One foldable block for each file; the lines of a large patch are made when its block is opened.
function byFile(patch) {
	const parts = [];
	for (const line of linesOf(patch)) {
		if (line.startsWith("diff --git ") || !parts.length) parts.push([]);
		parts.at(-1).push(line);
	}
	let total = 0;
	return parts.map((lines) => {
		total += lines.length;
		const block = h("details.file", { open: total < MOST_LINES, ontoggle: () => block.children[1] || block.append(body()) }, h("summary", h("bdi", nameOf(lines))));
		const body = () => h("div", patchLines(lines.slice(0, MOST_LINES), true), lines.length > MOST_LINES && note(`${lines.length - MOST_LINES} more lines.`));
		if (block.open) block.append(body());
		return block;
	});
}

// The name of a file of git's patch. A file that was not renamed is named twice alike: `a/NAME b/NAME`.
function nameOf([first, ...lines]) {
	const twice = first.slice("diff --git ".length);
	const renamed = lines.find((line) => line.startsWith("rename to "))?.slice("rename to ".length);
	const name = renamed ?? twice.slice((twice.length + 1) / 2).replace("b/", "");
	return name.startsWith('"') ? name.slice(1, -1) : name;
}

function recorded({ files, patches, commands, unanswered }) {
	return [
		commands > 0 && note(commands === 1 ? "1 shell command left no record of what it changed." : `${commands} shell commands left no record of what they changed.`),
		unanswered > 0 && note(unanswered === 1 ? "1 call has no result: it may have changed files." : `${unanswered} calls have no result: they may have changed files.`),
		!files.length && h("p.empty", "No changed file is recorded."),
		files.map((file) => h("details.file",
			h("summary", h("bdi", file.path), ` ${file.kind} `, counts(file), { different: " changed since", gone: " gone now" }[file.now]),
			patches?.filter((patch) => patch.path === file.path).map((patch) => [patch.remark && note(patch.remark), patch.patch && patchLines(linesOf(patch.patch), true)]))),
	];
}

export function showFacts(element, id) {
	show(element, [["Why this status", "/api/why", { id }, explained], ["Facts", "/api/session", { id }, facts]]);
}

function explained({ verdict, evidence }) {
	return [h("p", verdict), h("ul.evidence", evidence.map((one) => h("li", h("code", one.source), h("span", one.says), ageOf(one.at, " ago"))))];
}

const FACTS = "adapter id name group cwd branch model pid started_at last_activity_at ended_at duration_seconds turns outcome ended_by tokens context_tokens context_window cost_usd parent root notes prompt last_message".split(" ");
const NAMES = { adapter: "agent", cwd: "directory", pid: "process", root: "home" };

function facts(row) {
	const shown = (name, value) => {
		if (name.endsWith("_at")) return [new Date(value).toLocaleString(), ", ", ageOf(value, " ago")];
		if (name === "duration_seconds") return span(value);
		if (typeof value === "object") return Object.entries(value).map(([key, one]) => (Array.isArray(value) ? one : `${key} ${one?.toLocaleString("en")}`)).join(", ");
		return typeof value === "number" && name !== "pid" ? value.toLocaleString("en") : linked(String(value));
	};
	const known = FACTS.filter((name) => (row[name] ?? "").length !== 0);
	return h("dl", known.map((name) => [h("dt", NAMES[name] ?? name.replace(/_(at|seconds)$/, "").replaceAll("_", " ")), h("dd", { dir: "auto" }, shown(name, row[name]))]));
}
