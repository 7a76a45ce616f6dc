/* How a lock and a row look: words, order and nodes. It keeps no data and sends nothing. */
import { order } from './model.js';
import { mark, say } from './pane.js';

/* In the order of the legend. The last two stay for 3 s. */
export const STATES = {
  waiting: { icon: '○', means: 'waits for a slot' },
  busy: { icon: '●', means: 'holds a slot' },
  granted: { icon: '◆', means: 'holds without a slot' },
  revoked: { icon: '▲', means: 'its slot was removed' },
  evicted: { icon: '▼', means: 'holds until its deadline' },
  unknown: { icon: '?', means: 'no daemon names the holder' },
  cancelled: { icon: '×', means: 'fails (for 3 s)' },
  ended: { icon: '✓', means: 'released, or left (for 3 s)' },
};

/* ---- words ---- */

export const number = (value) => (value === 'unlimited' ? '∞' : value == null ? '?' : String(value));
export const busyWords = (lock) => number(lock.busy) + (lock.extra > 0 ? ` (+${lock.extra})` : '');
export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? '' : 's'}`;

export function age(born) {
  if (born == null) return '?';
  const s = Math.max(0, Math.floor((Date.now() - born) / 1000)), two = (n) => String(Math.floor(n)).padStart(2, '0');
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${two((s / 60) % 60)}m`;
  return `${Math.floor(s / 86400)}d${two((s / 3600) % 24)}h`;
}

/* How far this browser's clock is ahead of the server's. */
export const clock = { ahead: 0 };

/* The age in a row is as old as its last change, and other hosts' clocks can be wrong: the earlier time is the better. */
const bornAt = ({ born, since }) => (since ? Math.min(born, Date.parse(since) + clock.ahead) : born);

export const whom = (row) => row.who ?? row.command ?? (row.pid == null ? 'somebody' : `pid ${row.pid}`);

/* ---- order and filter ---- */

const amount = (value) => (value === 'unlimited' ? Infinity : value ?? -1);

const byName = (a, b) => order(a.name, b.name);
const lockKeys = { name: (l) => l.name, slots: (l) => amount(l.slots), busy: (l) => amount(l.busy) + (l.extra ?? 0),
  waiting: (l) => amount(l.waiting) };
const rowKeys = { state: (r) => r.state, lock: (r) => r.name, slot: (r) => r.slot ?? Infinity,
  position: (r) => (r.state === 'waiting' ? `${r.host} ${String(r.place).padStart(9)}` : ''),
  host: (r) => r.host ?? '', who: (r) => r.who ?? '', command: (r) => r.command ?? '', why: (r) => r.why ?? '',
  since: (r) => r.since };

/* sort: a key; "-host": by host, from the end. Equal items stay in their order. */
function sorted(items, sort, keys) {
  const way = sort.startsWith('-') ? -1 : 1, key = sort.replace('-', '');
  return Object.hasOwn(keys, key) ? items.sort((a, b) => way * order(keys[key](a), keys[key](b))) : items;
}

export const sortLocks = (locks, sort) => sorted(locks.sort(byName), sort, lockKeys);
export const sortRows = (rows, sort) => sorted(rows, sort, rowKeys);

export function matches(row, word) {
  return [row.who, row.why, row.command, row.host, row.state, row.name].some((text) => text?.toLowerCase().includes(word));
}

/* ---- nodes ---- */

const copyOf = (id) => document.getElementById(id).content.firstElementChild.cloneNode(true);

export function makeLock(item) {
  const node = copyOf('lock'), [less, field, more] = node.children[1].children;
  less.ariaLabel = `Remove one slot of ${item.name}`;
  more.ariaLabel = `Add one slot to ${item.name}`;
  field.ariaLabel = `Slots of ${item.name}`;
  say(node.children[0].firstChild, item.name);
  if (item.kind === 'mutex') node.children[1].replaceChildren('mutex');
  return node;
}

export function fillLock(node, item) {
  const [name, slots, busy, waiting, bar] = node.children, field = slots.children[1];
  const size = Number.isInteger(item.slots) && item.busy != null ? item.slots : 0;
  say(name.lastChild, item.exists === false ? 'missing' : item.slots === 0 ? '0: all wait' : '');
  if (field && document.activeElement !== field && field.value !== number(item.slots)) field.value = number(item.slots);
  say(busy.firstChild, number(item.busy));
  say(busy.lastChild, item.extra > 0 ? `+${item.extra}` : '');
  if (item.extra > 0) mark(busy.lastChild, 'title', `${plural(item.extra, 'holder')} beyond the slots`);
  say(waiting, number(item.waiting));
  mark(node, 'class', `lock${item.waiting > 0 ? ' queue' : ''}${item.slots === 0 ? ' closed' : ''}${size ? '' : ' no-bar'}`);
  const part = size ? `${Math.min(100, (item.busy / size) * 100)}%` : '0';
  if (bar.firstChild.style.width !== part) bar.firstChild.style.width = part;
}

export const makeRow = () => copyOf('row');

export function fillRow(node, item) {
  const [state, of, slot, place, host, who, command, why, since] = node.children;
  if (node.dataset.state !== item.state) {
    node.dataset.state = item.state;
    say(state.firstChild, STATES[item.state].icon);
    say(state.lastChild, item.state);
  }
  say(of, item.name);
  say(slot, number(item.slot ?? ''));
  say(place, item.state === 'waiting' ? `#${number(item.place)}` : '');
  say(host, item.host ?? '?');
  say(who, item.who ?? (item.uid == null ? '?' : `uid ${item.uid}`));
  say(command, item.command ?? (item.pid == null ? '?' : `pid ${item.pid}`));
  say(why, item.why ?? '');
  say(since, age(bornAt(item)));
  if (since.title !== item.since) since.title = item.since;
}
