/*
 * A sorted list on the page: one node for each item that passes the filter. A change of an item writes to its own node
 * alone, and only what differs. It owns the nodes of its list. It does not know what the items mean.
 */
import { indexIn, order } from './model.js';

export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function mark(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export class Pane {
  entries = new Map();
  shown = []; /* entries of this.entries, in order */
  inSight = new Set(); /* of them, those that the window shows */
  selected = '';

  /* rules: make(item) returns a node; fill(entry) writes; passes(item); compare(a, b) of items. */
  constructor(list, rules) {
    this.list = list;
    this.rules = rules;
    this.sight = new IntersectionObserver((seen) => seen.forEach((one) => this.#see(one)));
  }

  put(id, item) {
    let entry = this.entries.get(id);
    const wasShown = entry?.shown, before = entry?.item;
    if (!entry) {
      entry = { id, item, shown: false };
      this.entries.set(id, entry);
    }
    if (wasShown && this.rules.passes(item) && this.#compare(entry, { id, item }) === 0) {
      entry.item = item;
      this.rules.fill(entry, before);
      return;
    }
    if (wasShown) this.shown.splice(this.#index(entry), 1);
    entry.item = item;
    entry.shown = this.rules.passes(item);
    if (!entry.shown) {
      if (wasShown) this.#hide(entry);
      return;
    }
    this.#show(entry, before);
    const index = this.#index(entry), next = this.shown[index]?.node ?? null;
    this.shown.splice(index, 0, entry);
    if (!wasShown || entry.node.nextSibling !== next) this.#move(entry.node, next);
  }

  drop(id) {
    const entry = this.entries.get(id);
    if (!entry) return;
    this.entries.delete(id);
    if (!entry.shown) return;
    this.shown.splice(this.#index(entry), 1);
    this.#hide(entry);
  }

  /* After another filter or another order: all are looked at again. */
  renew() {
    const before = new Set(this.shown);
    this.shown = [...this.entries.values()].filter((entry) => (entry.shown = this.rules.passes(entry.item)));
    this.shown.sort((a, b) => this.#compare(a, b));
    this.shown.forEach((entry) => {
      before.delete(entry);
      this.#show(entry);
    });
    before.forEach((entry) => this.#hide(entry));
    this.list.replaceChildren(...this.shown.map((entry) => entry.node));
  }

  select(id, focus = false) {
    const was = this.entries.get(this.selected), now = this.entries.get(id);
    this.selected = id;
    if (was?.node && was !== now) this.#choose(was, false);
    if (now?.node) this.#choose(now, true);
    if (now?.shown && focus) {
      now.node.focus({ preventScroll: true });
      now.node.scrollIntoView({ block: 'nearest' });
    }
  }

  /* The id that is so many items away from the selected one. */
  away(by) {
    const entry = this.entries.get(this.selected), last = this.shown.length - 1;
    const from = entry?.shown ? this.#index(entry) : by > 0 ? -1 : last + 1;
    return this.shown[Math.max(0, Math.min(last, from + by))]?.id ?? '';
  }

  /* A node that moves would lose the focus. */
  #move(node, next) {
    const active = document.activeElement, had = node.contains(active);
    this.list.insertBefore(node, next);
    if (had) active.focus({ preventScroll: true });
  }

  #compare(a, b) {
    return this.rules.compare(a.item, b.item) || order(a.id, b.id);
  }

  #index(entry) {
    return indexIn(this.shown, entry, (a, b) => this.#compare(a, b));
  }

  #show(entry, before) {
    if (!entry.node) {
      entry.node = this.rules.make(entry);
      entry.node.entry = entry;
      this.#choose(entry, entry.id === this.selected);
    }
    this.sight.observe(entry.node);
    this.rules.fill(entry, before);
  }

  #hide(entry) {
    this.sight.unobserve(entry.node);
    this.inSight.delete(entry);
    entry.node.remove();
    entry.node = null;
  }

  #see(one) {
    const { entry } = one.target;
    if (one.isIntersecting && entry.node === one.target) this.inSight.add(entry);
    else this.inSight.delete(entry);
    if (one.isIntersecting && entry.node) this.rules.fill(entry);
  }

  /* The keys reach the selected item, and Tab its buttons. */
  #choose(entry, chosen) {
    mark(entry.node, 'aria-selected', String(chosen));
    entry.node.tabIndex = chosen ? 0 : -1;
    entry.node.querySelectorAll('button, input').forEach((one) => (one.tabIndex = chosen ? 0 : -1));
  }
}
