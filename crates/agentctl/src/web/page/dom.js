// Elements and short texts. Every text becomes a text node: no string is ever parsed as HTML. Characters that hide or
// reorder text are shown escaped, as the command line shows them.

// The characters that text.rs calls harmful: controls, and what Unicode says is not shown.
const HARMFUL = /[^\P{Cc}\n\t]|[\p{Cf}\p{DI}\p{Zl}\p{Zp}]/u;
// A variation selector or a joiner that belongs to an emoji (emoji.rs), or to a keycap, hides nothing.
const EMOJI = "[^\\P{Emoji}\\d#*]";
const CHECKED = new RegExp(`(?<=${EMOJI}|[\\d#*](?=.\u20e3))[\ufe0e\ufe0f]|(?<=${EMOJI}\ufe0f?)\u200d(?=${EMOJI})|(${HARMFUL.source})`, "gu");

const escaped = (code) => (code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`);

export const visible = (text) => (HARMFUL.test(text) ? text.replace(CHECKED, (all, bad) => (bad ? escaped(bad.codePointAt(0)) : all)) : text);

// Attributes that people see or hear. The value of a field is sent back, so it stays as it is.
const SHOWN = new Set(["aria-label", "placeholder", "title"]);

// Makes an element: h("a.class", { href, onclick }, child, "text", …). The attributes may be left out.
export function h(selector, attributes, ...children) {
	const [name, ...classes] = selector.split(".");
	const element = document.createElement(name);
	if (classes.length) element.className = classes.join(" ");
	if (attributes?.constructor !== Object) children.unshift(attributes);
	else for (const [key, given] of Object.entries(attributes)) {
		const value = typeof given === "string" && SHOWN.has(key) ? visible(given) : given;
		if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
		else if ((value ?? false) !== false) element.setAttribute(key, value === true && !key.startsWith("aria") ? "" : value);
	}
	add(element, children);
	return element;
}

function add(element, children) {
	const present = children.flat(9).filter((child) => (child ?? false) !== false);
	element.append(...present.map((child) => (child instanceof Node ? child : visible(`${child}`))));
}

export function fill(element, ...children) {
	element.replaceChildren();
	add(element, children);
}

// A text that has not changed is not laid out or read aloud again.
export function setText(element, text) {
	const shown = visible(`${text ?? ""}`);
	if (element.textContent !== shown) element.textContent = shown;
}

export function mark(link, isCurrent) {
	if (isCurrent) link.setAttribute("aria-current", "page");
	else link.removeAttribute("aria-current");
}

export const byId = (id) => document.getElementById(id);

const LINK = /https?:\/\/[^\s<>"'\x60\u200b-\u200f\u2028-\u202f\u2060-\u206f]+/gi;

// Makes links of http and https addresses. A link shows the whole address that it opens.
export function linked(text) {
	const nodes = [];
	let end = 0;
	for (const { 0: found, index } of text.matchAll(LINK)) {
		const address = found.replace(/[.,;:!?*_~\]]+$/, "").replace(/^([^(]*)\)+[^)]*$/, "$1");
		if (!URL.canParse(address)) continue;
		const { href } = new URL(address);
		nodes.push(text.slice(end, index), h("a", { href, rel: "noreferrer noopener", target: "_blank" }, href === `${address}/` ? address : href));
		end = index + address.length;
	}
	return [...nodes, text.slice(end)];
}

const SIGNS = { "+": "added", "-": "removed", "@": "head" };

// Lines end at a line feed and nowhere else: to a regular expression a carriage return and U+2028 end one, too.
export const linesOf = (text) => (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");

const HEAD = /^(index|---|\+\+\+|old|new|deleted|similarity|dissimilarity|rename|copy|Binary) /;

// The lines of a change. Below a heading that names the file, git's own lines that name it again are left out; no line of
// an ask is.
export function patchLines(lines, isNamed) {
	let isHead = false;
	return h("div.patch", { tabindex: 0, role: "group", "aria-label": "Changed lines" }, lines.map((line) => {
		isHead = isNamed && (line.startsWith("diff --git ") || (isHead && HEAD.test(line)));
		if (isHead && /^(diff|index|---|\+\+\+) /.test(line)) return null;
		const kind = isHead ? "head" : SIGNS[line[0]] ?? "same";
		return h(`div.line.${kind}`, kind === "removed" ? `−${line.slice(1)}` : line || " ");
	}));
}

let home;
export const setHome = (directory) => (home = directory);

export const shortPath = (path) => (home && `${path}/`.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path ?? "");

export const longPath = (path) => (home && `${path}/`.startsWith("~/") ? home + path.slice(1) : path);

export const folder = (path) => path && h("span.directory", { title: path }, h("bdi", shortPath(path)));

export function span(seconds) {
	const [size, unit] = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]].find(([least]) => seconds >= least) ?? [1, "s"];
	return `${Math.floor(seconds / size)}${unit}`;
}

export function ageOf(moment, after = "") {
	if (!moment) return null;
	const element = h("time", { datetime: moment, title: new Date(moment).toLocaleString() });
	element.refresh = () => setText(element, span(Math.max(0, (Date.now() - Date.parse(moment)) / 1000)) + after);
	element.refresh();
	return element;
}

export function refreshAges() {
	for (const element of document.querySelectorAll("time")) element.refresh();
}

export const newNotice = () => h("p.notice", { role: "status", hidden: true });

// Says something in a notice, where it can be read.
export function tell(notice, text, isBad) {
	notice.hidden = !text;
	notice.classList.toggle("bad", Boolean(isBad));
	setText(notice, text);
	notice.scrollIntoView({ block: "nearest" });
}

export function say(text, urgent) {
	setText(byId(urgent ? "say-assertive" : "say-polite"), text);
}

// Asks before an order that may have arrived is given once more.
export async function isMeantAgain(verb) {
	return await openDialog(`${verb} again?`, h("p", "The first one may have arrived."), ["Cancel", `${verb} again`]) === `${verb} again`;
}

// Shows a dialog. The browser gives the focus back at its end. Resolves to the name of the pressed button.
export function openDialog(title, children, buttons) {
	const dialog = byId("dialog");
	return new Promise((resolve) => {
		dialog.returnValue = "";
		fill(dialog, h("h2", { id: "dialog-title" }, title), children, h("div.buttons", buttons.map((name, index) => h(index ? "button.danger" : "button", { autofocus: !index, onclick: () => dialog.close(name) }, name))));
		dialog.onclose = () => resolve(dialog.returnValue);
		dialog.showModal();
	});
}
