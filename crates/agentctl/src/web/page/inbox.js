// The boards that hold the cards of open asks: the inbox, and the asks of the session that is shown.

import { Card } from "./ask.js";
import { byId, h, say } from "./dom.js";

/// The cards of all asks, or of one session.
export class Board {
	constructor(element, { session, control, connected, counted, fits, empty }) {
		Object.assign(this, { element, session, control, connected, counted, fits });
		this.cards = new Map();
		this.empty = h("p.empty", empty);
		this.paintEmpty();
		const moved = () => this.moved();
		addEventListener("scroll", moved, { capture: true, passive: true });
		addEventListener("resize", moved, { passive: true });
		this.sizes = new ResizeObserver(moved);
		this.sizes.observe(element);
		this.close = () => {
			removeEventListener("scroll", moved, { capture: true });
			removeEventListener("resize", moved);
			this.sizes.disconnect();
		};
	}

	/// Takes all open asks. Returns those that are new here.
	take(asks) {
		const open = new Map(asks.filter(this.fits).map((ask) => [ask.id, ask]));
		for (const [id, card] of this.cards) if (!open.has(id)) card.vanish();
		const added = [];
		for (const [id, ask] of open) {
			const known = this.cards.get(id);
			if (known && known.state !== "settled") continue;
			if (known && !known.gone) continue;
			known?.element.remove();
			const card = new Card(this, ask);
			this.cards.set(id, card);
			this.element.append(card.element);
			added.push(ask);
		}
		this.paintEmpty();
		this.moved();
		return added;
	}

	/// Shows every card anew, for example after it became known that control is allowed.
	renew(asks) {
		for (const card of this.cards.values()) card.element.remove();
		this.cards.clear();
		this.take(asks);
	}

	dismiss(card) {
		const next = card.element.nextElementSibling ?? card.element.previousElementSibling;
		card.element.remove();
		this.cards.delete(card.ask.id);
		this.paintEmpty();
		this.moved();
		(next?.isConnected && next.matches(".card") ? next : byId("main")).focus({ preventScroll: true });
		say("Dismissed");
	}

	paintEmpty() {
		if (this.cards.size) this.empty.remove();
		else if (this.empty.textContent) this.element.append(this.empty);
	}

	moved() {
		for (const card of this.cards.values()) card.moved();
	}

	rearm() {
		for (const card of this.cards.values()) if (card.state === "open") card.rearm();
	}

	focus(id) {
		const card = this.cards.get(id) ?? [...this.cards.values()].find((one) => one.ask.id.startsWith(id));
		card?.element.scrollIntoView({ block: "start" });
		card?.element.focus({ preventScroll: true });
		return Boolean(card);
	}
}
