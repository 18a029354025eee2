// Elements and short texts. Every text becomes a text node: no string is ever parsed as HTML.

/// Makes an element: h("a.class", { href, onclick }, child, "text", …). The attributes may be left out, and so are
/// children that are null or false.
export function h(selector, attributes, ...children) {
	const [name, ...classes] = selector.split(".");
	const element = document.createElement(name);
	if (classes.length) element.className = classes.join(" ");
	if (attributes?.constructor !== Object) children.unshift(attributes);
	else for (const [key, value] of Object.entries(attributes)) {
		if (value === null || value === undefined || value === false) continue;
		if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
		else element.setAttribute(key, value === true ? "" : String(value));
	}
	add(element, children);
	return element;
}

export function add(element, children) {
	for (const child of children.flat(9)) {
		if (child === null || child === undefined || child === false) continue;
		element.append(child instanceof Node ? child : document.createTextNode(String(child)));
	}
}

export function fill(element, ...children) {
	element.replaceChildren();
	add(element, children);
}

/// Sets a text only where it differs, so that nothing is laid out or read aloud again without a change.
export function setText(element, text) {
	if (element.textContent !== text) element.textContent = text;
}

export const byId = (id) => document.getElementById(id);

const LINK = /https?:\/\/[^\s<>"'`\u00a0\u200b-\u200f\u2028-\u202f\u2060-\u206f]+/gi;

/// Returns a text with its http and https addresses as links. A link shows the whole address that it opens.
export function linked(text) {
	const nodes = [];
	let end = 0;
	for (const match of text.matchAll(LINK)) {
		let address = match[0].replace(/[.,;:!?*_~\]]+$/, "");
		if (address.endsWith(")") && !address.includes("(")) address = address.slice(0, -1);
		const url = address_of(address);
		if (!url) continue;
		nodes.push(document.createTextNode(text.slice(end, match.index)));
		nodes.push(h("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, url === `${address}/` ? address : url));
		end = match.index + address.length;
	}
	nodes.push(document.createTextNode(text.slice(end)));
	return nodes;
}

function address_of(text) {
	try {
		const url = new URL(text);
		return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
	} catch {
		return null;
	}
}

/// Returns a unified diff as lines with a sign and a colour.
export function patchLines(text) {
	const box = h("div.patch", { tabindex: "0", role: "group", "aria-label": "Changed lines" });
	for (const line of text.replace(/\n$/, "").split("\n")) {
		const meta = /^(diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|similarity|rename |Binary )/.test(line);
		const kind = meta ? "meta" : line.startsWith("@@") ? "hunk" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "same";
		const shown = kind === "removed" ? `−${line.slice(1)}` : line;
		box.append(h(`div.line.${kind}`, shown === "" ? " " : shown));
	}
	return box;
}

let home = null;
export function setHome(directory) {
	home = directory;
}

/// Returns a directory with `~` for the home of the user of the server.
export function shortPath(path) {
	if (!path) return "";
	if (home && (path === home || path.startsWith(`${home}/`))) return `~${path.slice(home.length)}`;
	return path;
}

/// A directory, shortened at its beginning where it does not fit.
export const folder = (path) => path && h("span.directory", { title: path }, h("bdi", shortPath(path)));

/// Returns the time since a moment in its largest unit: `12s`, `3m`, `2h`, `5d`.
export function age(moment) {
	if (!moment) return "";
	const seconds = Math.max(0, Math.round((Date.now() - Date.parse(moment)) / 1000));
	if (Number.isNaN(seconds)) return "";
	return span(seconds);
}

export function span(seconds) {
	if (seconds < 60) return `${seconds}s`;
	if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
	if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
	return `${Math.floor(seconds / 86400)}d`;
}

/// An element that shows an age; `refreshAges` brings all of them up to date.
export function ageOf(moment, before = "", after = "") {
	const shown = (element) => setText(element, `${before}${age(moment)}${after}`);
	const element = h("time.age", { datetime: moment, title: moment ? new Date(moment).toLocaleString() : null });
	element.refresh = shown;
	shown(element);
	return element;
}

export function refreshAges() {
	for (const element of document.querySelectorAll("time.age")) element.refresh?.(element);
}

/// Says a text to a screen reader.
export function say(text, urgent = false) {
	setText(byId(urgent ? "say-assertive" : "say-polite"), text);
}

let opener = null;
/// Shows a dialog and gives the focus back to where it was when the dialog closes.
export function openDialog(title, ...children) {
	const dialog = byId("dialog");
	if (dialog.open) dialog.close();
	opener = document.activeElement;
	fill(dialog, h("h2", { id: "dialog-title" }, title), ...children);
	dialog.onclose = () => opener?.isConnected && opener.focus();
	dialog.showModal();
	return dialog;
}

/// Asks for a confirmation; resolves to true or false.
export function confirmed(title, text, action) {
	return new Promise((resolve) => {
		let agreed = false;
		const close = (value) => () => {
			agreed = value;
			byId("dialog").close();
		};
		const buttons = h("div.buttons",
			h("button", { onclick: close(false), autofocus: true }, "Cancel"),
			h("button.danger", { onclick: close(true) }, action));
		const dialog = openDialog(title, h("p", text), buttons);
		dialog.addEventListener("close", () => resolve(agreed), { once: true });
	});
}
