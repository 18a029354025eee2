// What a session has done: its changed files, and the facts behind its status.

import { ageOf, fill, folder, h, linked, patchLines, span } from "./dom.js";
import { get, wordsOf } from "./net.js";

const MOST_LINES = 3000;
const loading = () => h("p.empty", { role: "status" }, "Reading…");
const refused = (refusal) => h("p.note", wordsOf(refusal));
const counts = (file) => [
	h("span.s-added", `+${file.added ?? "?"}`), " ",
	h("span.s-removed", `−${file.removed ?? "?"}`),
];

/// Puts an answer into an element, unless the user has gone on meanwhile.
async function show(element, question, painted) {
	const turn = (element.turn = {});
	fill(element, loading());
	const shown = await question().then(painted, refused);
	if (element.turn === turn) fill(element, shown);
}

export function showChanges(element, key) {
	const question = () => Promise.allSettled([get("/api/diff", { id: key, patch: true }), get("/api/changes", { id: key, patch: true })]);
	return show(element, question, ([diff, changes]) => [
		h("h2", "In the working tree"),
		diff.status === "fulfilled" ? diff.value.diffs.map(oneDiff) : refused(diff.reason),
		h("h2", "Recorded by the agent"),
		changes.status === "fulfilled" ? recorded(changes.value) : refused(changes.reason),
	]);
}

function oneDiff(diff) {
	const notes = [];
	if (diff.shared_with.length) notes.push(`Other sessions worked in the same tree: ${diff.shared_with.join(", ")}.`);
	if (diff.dirty_submodules.length) notes.push(`Submodules with changes of their own: ${diff.dirty_submodules.join(", ")}.`);
	const patch = typeof diff.patch === "string" ? diff.patch : (diff.patch?.text ?? null);
	return [
		h("p.meta", folder(diff.directory), diff.branch && h("code", diff.branch), h("span", `since ${diff.base.slice(0, 10)} (${diff.base_from.replaceAll("_", " ")})`), h("span", counts(diff))),
		[...notes, ...diff.gaps].map((note) => h("p.note", note)),
		diff.files.length === 0 && h("p.empty", "Nothing has changed."),
		patch ? byFile(patch) : diff.files.map((file) => h("p.path", h("bdi", file.path), " ", counts(file))),
	];
}

/// A patch as one foldable block for each file.
function byFile(patch) {
	let lines = 0;
	return patch.split(/^(?=diff --git )/m).filter(Boolean).map((part) => {
		const name = /^\+\+\+ "?b\/(.*?)"?$/m.exec(part)?.[1] ?? /^--- "?a\/(.*?)"?$/m.exec(part)?.[1] ?? /^diff --git (.*)$/m.exec(part)?.[1] ?? "";
		const length = part.split("\n").length;
		lines += length;
		const body = () => patchLines(part.split("\n").slice(0, MOST_LINES).join("\n"));
		const block = h("details.file", h("summary", h("bdi", name)));
		const open = () => block.childElementCount === 1 && block.append(body(), length > MOST_LINES ? h("p.note", `${length - MOST_LINES} more lines.`) : "");
		block.addEventListener("toggle", () => block.open && open());
		if (lines < MOST_LINES) {
			open();
			block.open = true;
		}
		return block;
	});
}

function recorded(changes) {
	const notes = [];
	if (changes.commands) notes.push(`${changes.commands} shell commands are not recorded with what they changed.`);
	if (changes.unanswered) notes.push(`${changes.unanswered} changes have no result yet.`);
	const patches = new Map();
	for (const patch of changes.patches ?? []) patches.set(patch.path, [...(patches.get(patch.path) ?? []), patch]);
	return [
		notes.map((note) => h("p.note", note)),
		changes.files.length === 0 && h("p.empty", "No changed file is recorded."),
		changes.files.map((file) => h("details.file",
			h("summary", h("bdi", file.path), " ", h("small", `${file.kind} `), counts(file), file.now === "different" && h("small", " changed since"), file.now === "gone" && h("small", " gone now")),
			(patches.get(file.path) ?? []).map((patch) => [patch.remark && h("p.note", patch.remark), patch.patch && patchLines(patch.patch)]))),
	];
}

export function showFacts(element, key) {
	const question = () => Promise.allSettled([get("/api/why", { id: key }), get("/api/session", { id: key })]);
	return show(element, question, ([why, session]) => [
		h("h2", "Why this status"),
		why.status === "fulfilled" ? explained(why.value) : refused(why.reason),
		h("h2", "Facts"),
		session.status === "fulfilled" ? facts(session.value) : refused(session.reason),
	]);
}

function explained(why) {
	return [
		h("p.verdict", why.verdict),
		h("ul.evidence", why.evidence.map((one) => h("li", h("code", one.source), h("span", one.says), ageOf(one.at, "", " ago")))),
	];
}

function facts(row) {
	const number = (value) => value?.toLocaleString("en");
	const moment = (value) => value && [new Date(value).toLocaleString(), " (", ageOf(value, "", " ago"), ")"];
	const tokens = row.tokens && `${number(row.tokens.input)} in, ${number(row.tokens.output)} out, ${number(row.tokens.cache_read)} cache read, ${number(row.tokens.cache_write)} cache write`;
	const context = row.context_tokens && `${number(row.context_tokens)} tokens${row.context_window ? ` of ${number(row.context_window)}` : ""}`;
	const shown = [
		["Agent", row.adapter], ["Session", row.id], ["Name", row.name], ["Group", row.group], ["Directory", row.cwd], ["Branch", row.branch],
		["Model", row.model], ["Process", row.pid], ["Started", moment(row.started_at)], ["Last activity", moment(row.last_activity_at)], ["Ended", moment(row.ended_at)],
		["Duration", row.duration_seconds !== null && row.duration_seconds !== undefined ? span(row.duration_seconds) : null], ["Turns", row.turns],
		["Outcome", row.outcome], ["Ended by", row.ended_by && `${row.ended_by.kind}${row.ended_by.detail ? `: ${row.ended_by.detail}` : ""}`],
		["Tokens", tokens], ["Context", context], ["Cost", row.cost_usd !== null && row.cost_usd !== undefined ? `$${row.cost_usd.toFixed(4)}` : null],
		["Parent", row.parent], ["Home", row.root], ["Notes", row.notes?.join(" ")], ["Prompt", row.prompt], ["Last message", row.last_message && linked(row.last_message)],
	];
	return h("dl", shown.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => [h("dt", name), h("dd", { dir: "auto" }, value)]));
}
