/*
 * The locks and rows that the server has told, by name and by id. It merges patches and knows neither the page nor the
 * network. It also counts the local queue of each host, because a row's own position is as old as the row.
 */

export const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/* Holders by slot, then waiters by host, as the daemon there serves them. Ids of one daemon count up. */
function rowOrder(a, b) {
  return order(a.name, b.name) || a.rank - b.rank || (a.rank === 0 ? order(a.slot ?? Infinity, b.slot ?? Infinity) : 0) ||
    order(a.host, b.host) || b.priority - a.priority || order(a.since, b.since) || a.serial - b.serial ||
    order(a.waiter, b.waiter);
}

const KNOWN = ['waiting', 'busy', 'granted', 'revoked', 'evicted', 'cancelled'];
const HOLDS = ['busy', 'granted', 'revoked', 'evicted'];

export const holds = (row) => HOLDS.includes(row.state);

function readRow(row) {
  const state = row.unknown || !KNOWN.includes(row.state) ? 'unknown' : row.evicted ? 'evicted'
    : row.revoked ? 'revoked' : row.state;
  return { ...row, state, rank: state === 'waiting' || state === 'cancelled' ? 1 : 0,
    priority: row.priority ?? 0, since: row.since ?? '', serial: Number(/\d*$/.exec(row.waiter)[0]),
    born: row.born ?? (row.age == null ? null : Date.now() - row.age * 1000) };
}

const heardAt = ({ heard, age }) => (heard !== undefined ? heard : age == null ? null : Date.now() - age * 1000);

export class Model {
  locks = new Map();
  rows = new Map();
  head = {}; /* link, broker, silent_hosts, more */
  named = new Map(); /* by lock: its busy slots that a row explains */
  #whole = new Set(); /* lists that the server has not sent since the reset */
  #sorted = [];

  /* Returns the rows that went by themselves. */
  apply(patch) {
    const gone = { locks: patch.locks_gone ?? [], rows: patch.rows_gone ?? [] };
    let went = gone.rows;
    if (patch.reset) {
      this.head = {};
      this.#whole = new Set(['locks', 'rows']);
    }
    /* The first list after a reset has all. Until then the old ones stay, so that the page does not flicker. */
    for (const [key, id] of [['locks', 'name'], ['rows', 'waiter']]) {
      if (!patch[key] || !this.#whole.delete(key)) continue;
      const now = new Set(patch[key].map((one) => one[id]));
      gone[key] = [...this[key].keys()].filter((one) => !now.has(one));
      if (key === 'rows') went = [];
    }
    patch.locks?.forEach((lock) => this.locks.set(lock.name, lock));
    for (const row of (patch.rows ?? []).map(readRow)) {
      this.rows.set(row.waiter, row);
      this.#sorted.push(row);
    }
    went = went.map((id) => this.rows.get(id)).filter((row) => row);
    gone.rows.forEach((id) => this.rows.delete(id));
    gone.locks.forEach((id) => this.locks.delete(id));
    if (patch.link) this.head.link = { ...patch.link, heard: heardAt(patch.link) };
    for (const key of ['broker', 'silent_hosts', 'more']) if (key in patch) this.head[key] = patch[key];
    return went;
  }

  /* All of it as one patch, for a page that joins. */
  snapshot() {
    return { reset: true, locks: [...this.locks.values()], rows: [...this.rows.values()], ...this.head };
  }

  /* The rows and others in order, each waiter with its place in the queue of its host. */
  arrange(others = []) {
    let place = 0, before = null;
    this.named.clear();
    this.#sorted = this.#sorted.filter((row) => this.rows.get(row.waiter) === row).sort(rowOrder);
    for (const row of this.#sorted) {
      const busy = row.state === 'busy' || row.state === 'evicted';
      if (busy && row.slot != null) this.named.set(row.name, (this.named.get(row.name) ?? 0) + 1);
      if (row.state !== 'waiting') continue;
      place = before?.name === row.name && before.host === row.host ? place + 1 : 1;
      row.place = this.head.more > 0 ? row.position : place;
      before = row;
    }
    return [...this.#sorted, ...others].sort(rowOrder);
  }
}
