/* The panel: it joins the data, the two panes, the acts, the keys and the address of the page. */
import { act, ask, command, commandNode, post, tell } from './acts.js';
import { holds, Model } from './model.js';
import { mark, Pane, say } from './pane.js';
import { share } from './stream.js';
import * as views from './views.js';

const SHORT_MS = 3000, EXPLAIN_MS = 2000, SLOTS_MOST = 10000;
const $ = (id) => document.getElementById(id);
const view = { lock: '', row: '', find: '', rows: '', sort: '', locks: '' };
let model = new Model(), session = {}, explained = {}, unexplainedSince = 0;
const went = new Map(); /* rows that are gone, and stay for a moment */
const denied = new Set(); /* waiters that this page has cancelled */
const sizes = new Map(); /* by lock: its last number of slots above 0, to open its gate again */
const locks = new Pane($('locks'), { id: (lock) => lock.name, make: views.makeLock, fill: views.fillLock });
const rows = new Pane($('rows'), { id: (row) => row.waiter, make: views.makeRow, fill: views.fillRow });
let focus = locks;

/* ---- what comes ---- */

/* A row that went stays for a moment. A daemon on another host does not say that it was cancelled. */
function linger(row) {
  const state = row.state === 'cancelled' || denied.delete(row.waiter) ? 'cancelled' : 'ended', last = { ...row, state };
  went.set(row.waiter, last);
  setTimeout(() => {
    if (went.get(row.waiter) === last) went.delete(row.waiter);
    drawRows();
  }, SHORT_MS);
}

function receive(patch, gone) {
  gone.forEach(linger);
  patch.rows?.forEach((row) => model.rows.has(row.waiter) && went.delete(row.waiter));
  patch.locks?.forEach(({ name, slots }) => slots > 0 && sizes.set(name, slots));
  if (patch.reset || (patch.link && !patch.link.up)) enter();
  if (patch.reset || patch.locks || patch.rows) explain();
  if (patch.reset || patch.locks?.length || patch.locks_gone) drawLocks();
  drawRows();
}

/* ---- what is shown ---- */

function drawLocks() {
  const word = view.find.toLowerCase(), all = [...model.locks.values()];
  locks.show(views.sortLocks(all.filter((lock) => lock.name.toLowerCase().includes(word)), view.locks));
  mark($('locks').closest('[role=grid]'), 'aria-rowcount', String(locks.items.length + 1));
  drawTexts();
}

function drawRows() {
  const word = view.rows.toLowerCase();
  /* While the link is lost, the rows stay as they were. */
  if (!model.head.link || model.head.link.up || rows.items.length === 0) {
    rows.show(views.sortRows(model.arrange(went.values()).filter((row) => (!view.lock || row.name === view.lock) &&
      (!word || views.matches(row, word))), view.sort));
  }
  mark($('grid'), 'aria-rowcount', String(rows.items.length + 1));
  drawTexts();
}

function drawTexts() {
  const { link, broker, silent_hosts: silent, more } = model.head, lock = model.locks.get(view.lock);
  const lost = link && !link.up, mutex = lock?.kind === 'mutex';
  const unexplained = lock && !mutex ? Math.max(0, (lock.busy ?? 0) - (model.named.get(view.lock) ?? 0)) : 0;
  say($('broker'), `broker ${broker?.state ?? '?'}${broker?.suspect ? ', silent' : ''}`);
  mark($('broker'), 'class', `pill ${broker?.state === 'up' && !broker.suspect ? 'good' : 'warn'}`);
  mark($('broker'), 'title', broker?.why ?? '');
  $('silent').hidden = !silent?.length;
  say($('silent'), silent?.length ? `no answer from ${silent.join(', ')}: waiters there are missing` : '');
  document.body.classList.toggle('lost', Boolean(lost));
  $('stale').hidden = !lost && !link?.why;
  say($('stale'), lost ? `The link is lost, and is tried again: ${link.why ?? '?'}. ` +
    `The data are ${views.age(link.heard)} old.` + (session.version ? '' : ` ${session.why ?? ''}`) : link?.why ?? '');
  guard();
  say($('title'), view.lock || 'All locks');
  say($('numbers'), !view.lock ? views.plural(model.locks.size, 'lock') + (more > 0 ? `, and ${more} more` : '')
    : !lock ? 'no such lock now' : `${mutex ? 'mutex' : views.plural(lock.slots, 'slot')}, ` +
      `${views.busyWords(lock)} busy, ${views.number(lock.waiting)} waiting`);
  $('about').hidden = !view.lock;
  say($('gate'), lock?.slots !== 0 ? 'Close (0 slots)'
    : sizes.has(view.lock) ? `Open (${sizes.get(view.lock)})` : 'Open…');
  $('gate').hidden = $('emergency').hidden = $('destroy').hidden = mutex;
  $('no-locks').hidden = locks.items.length > 0;
  say($('no-locks'), view.find ? 'No lock matches the filter.' : link ? 'There are no locks.'
    : 'Waiting for the first data…');
  $('no-rows').hidden = rows.items.length > 0;
  say($('no-rows'), view.rows ? 'No row matches the filter.' : 'No holders, no waiters.');
  unexplainedSince = unexplained ? unexplainedSince || Date.now() : 0;
  $('unexplained').hidden = !unexplained || Date.now() - unexplainedSince < SHORT_MS;
  say($('unexplained'), `? ${views.plural(unexplained, 'busy slot')}: no daemon names the holder. ` +
    `See: lockbroker show ${view.lock}`);
}

/* Why an act is not possible; '': it is. */
function blocked() {
  if (!session.administrator) return session.why ?? 'only administrators may change locks';
  return model.head.link?.up ? '' : 'the link to the daemon is lost';
}

function guard() {
  const why = blocked();
  document.querySelectorAll('fieldset.guarded').forEach((set) => {
    if (set.disabled !== Boolean(why)) set.disabled = Boolean(why);
    if (set.title !== why) set.title = why;
  });
  $('why').hidden = !why || !session.version || Boolean(model.head.link && !model.head.link.up);
  say($('why'), why ? `Buttons are disabled: ${why}` : '');
}

/* ---- about the selected lock ---- */

/* Asks when its numbers have changed, and not more often than every EXPLAIN_MS. */
function explain() {
  const lock = model.locks.get(view.lock), about = JSON.stringify([view.lock, lock?.slots, lock?.busy, lock?.waiting]);
  if (!view.lock || about === explained.about || explained.timer) return;
  const pause = explained.lock === view.lock ? Math.max(0, explained.at + EXPLAIN_MS - Date.now()) : 0;
  if (explained.lock !== view.lock) say($('explain'), '…');
  explained = { about, lock: view.lock, at: Date.now() + pause, timer: setTimeout(async () => {
    const asked = explained.lock, mutex = model.locks.get(asked)?.kind === 'mutex';
    const { result, error } = await post('explain', mutex ? { name: asked, kind: 'mutex' } : { name: asked });
    explained.timer = 0;
    if (asked === view.lock) say($('explain'), result?.text ?? `? ${error}`);
    explain();
  }, pause) };
}

function teach() {
  const name = view.lock, row = model.rows.get(view.row), of = (method, params) => command(method, { name, ...params });
  const mutex = model.locks.get(name)?.kind === 'mutex', size = sizes.get(view.lock);
  const list = [of('show', {}), of('explain', {})];
  if (!mutex) list.push(of('resize', { add: 1 }), of('resize', { remove: 1 }), of('resize', { slots: size ?? 1 }),
    of('resize', { slots: 0 }), of('resize', { slots: 'unlimited' }));
  list.push(command('deny', { name }));
  if (!mutex) list.push(of('destroy', {}));
  if (row?.state === 'waiting') list.push(command('grant', { waiter: row.waiter }), command('deny', { waiter: row.waiter }));
  if (row && holds(row)) list.push(command('evict', { holder: row.waiter }));
  $('commands').replaceChildren(...list.filter((text) => text).map(commandNode));
}

/* ---- selection, filter, order, and the address ---- */

let written = 0, address = ''; /* as it was read or written last */

function remember() {
  clearTimeout(written);
  written = setTimeout(() => {
    if (location.hash !== address) return; /* a new one, and its event comes next */
    const words = new URLSearchParams(Object.entries(view).filter(([, value]) => value));
    history.replaceState(null, '', `#${words}`);
    address = location.hash;
  }, 200);
}

function selectLock(id, keys = false) {
  const other = id !== view.lock;
  view.lock = id;
  locks.select(id, keys);
  if (other) {
    unexplainedSince = 0;
    selectRow('');
    drawRows();
    $('grid').classList.toggle('all', !id);
    clearTimeout(explained.timer);
    explained.timer = 0;
    explain();
  }
  drawTexts();
}

function selectRow(id, keys = false) {
  view.row = id;
  rows.select(id, keys);
  teach();
  remember();
}

function readAddress() {
  address = location.hash;
  const words = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(view)) if (key !== 'lock') view[key] = words.get(key) ?? '';
  const { row } = view;
  $('find').value = view.find;
  $('rows-find').value = view.rows;
  view.lock = '-';
  selectLock(words.get('lock') ?? '');
  selectRow(row);
  showOrder();
}

function showOrder() {
  for (const [grid, sort] of [[$('left'), view.locks || 'name'], [$('grid'), view.sort]]) {
    for (const button of grid.querySelectorAll('[data-sort]')) {
      const is = button.dataset.sort === sort.replace('-', '');
      mark(button.parentNode, 'aria-sort', is ? (sort.startsWith('-') ? 'descending' : 'ascending') : 'none');
    }
  }
  drawLocks();
  drawRows();
  remember();
}

document.querySelectorAll('[data-sort]').forEach((button) => (button.onclick = () => {
  const key = $('left').contains(button) ? 'locks' : 'sort', by = button.dataset.sort;
  view[key] = view[key] === by ? `-${by}` : view[key] === `-${by}` ? '' : by;
  showOrder();
}));
for (const [id, key, draw] of [['find', 'find', drawLocks], ['rows-find', 'rows', drawRows]]) {
  $(id).oninput = () => {
    view[key] = $(id).value;
    draw();
    remember();
  };
}

/* ---- acts ---- */

function allowed() {
  const why = blocked();
  if (why) tell(`No change was made: ${why}`, true);
  return !why;
}

async function asked(question) {
  const yes = await ask(question);
  if (!yes) tell('No change was made.');
  return yes && allowed();
}

/* slots: a number or 'unlimited'; or a step. */
async function resize(lock, params) {
  const { name } = lock, target = params.slots ?? (params.remove ? lock.slots - 1 : lock.slots + 1);
  if (target === 'unlimited' && !await asked({ title: `Make ${name} unlimited (∞)?`,
    text: 'Nobody waits any more: each client holds without a slot.', yes: 'Make it unlimited' })) return;
  if (target === 0 && lock.slots !== 0 && lock.waiting !== 0 && !await asked({ title: `Close ${name}?`,
    text: `With 0 slots all wait: ${views.plural(lock.waiting, 'waiter')} now, and each new client. ` +
      `${views.busyWords(lock)} busy: these holders go on.`, yes: 'Close it' })) return;
  act('resize', name, { name, ...params });
}

function step(lock, more) {
  if (lock.kind === 'mutex') tell('A mutex has no slots.', true);
  else if (more && Number.isInteger(lock.slots)) resize(lock, { add: 1 });
  else if (!more && lock.slots > 0) resize(lock, { remove: 1 });
  else if (!more && lock.slots === 0) resize(lock, { slots: 'unlimited' });
  else type(lock);
}

function type(lock) {
  const field = locks.nodes.get(view.lock)?.querySelector('input');
  if (!field || field.disabled) return;
  field.focus();
  field.select();
  if (lock.slots === 'unlimited') tell(`${lock.name} is unlimited: type its number of slots`);
}

function typed(field, lock) {
  const text = field.value.trim();
  field.blur();
  if (/^-\d+$|^∞$|^unlimited$/.test(text)) resize(lock, { slots: 'unlimited' });
  else if (/^\d+$/.test(text) && Number(text) <= SLOTS_MOST) resize(lock, { slots: Number(text) });
  else tell(`'${text}': expected 0 to ${SLOTS_MOST}, or unlimited`, true);
}

function gate(lock) {
  if (lock.kind === 'mutex') tell('A mutex has no slots.', true);
  else if (lock.slots !== 0) resize(lock, { slots: 0 });
  else if (sizes.has(lock.name)) resize(lock, { slots: sizes.get(lock.name) });
  else type(lock);
}

const waiters = (name) => model.arrange().filter((row) => row.name === name && row.state === 'waiting');

function listed(name, count) {
  const list = waiters(name), words = (row) => `${views.whom(row)} at ${row.host}${row.why ? `: ${row.why}` : ''}`;
  const rest = (count ?? list.length) - Math.min(list.length, 8);
  return [...list.slice(0, 8).map(words), ...(rest > 0 ? [`and ${rest} more`] : [])];
}

/* The rows can go before the answer comes. */
async function onWaiters(method, name, params, list) {
  if (method === 'deny') list.forEach((row) => denied.add(row.waiter));
  if (!await act(method, name, params)) list.forEach((row) => denied.delete(row.waiter));
}

async function denyAll({ name, waiting: count }) {
  if (count === 0) tell(`${name} has no waiters.`, true);
  else if (await asked({ title: `Cancel ${views.plural(count, 'waiter')} of ${name}?`,
    text: 'Each fails; its lockbroker run exits with 80. Holders go on. This cannot be undone.',
    list: listed(name, count), yes: 'Cancel all' }))
    onWaiters('deny', name, { name, all: true }, waiters(name));
}

/* seeds/004, "Cancel": 0 slots, then cancel all. */
async function emergency(lock) {
  const { name, waiting: count } = lock, size = sizes.get(name);
  const sure = await asked({ title: `Emergency: stop all new work on ${name}`, text: 'This does two things:',
    steps: [lock.slots === 0 ? 'It leaves the slots at 0: all wait.'
      : `It sets the slots from ${views.number(lock.slots)} to 0: all wait, and nobody new starts.`,
    `It cancels all waiters on all hosts, ${views.number(count)} now. Each fails; its lockbroker run exits with 80.`],
    list: listed(name, count),
    after: `${views.busyWords(lock)} busy: these holders go on.` +
      (size ? ` Afterwards, “Open (${size})” opens it again.` : ''), yes: 'Close and cancel all' });
  if (sure && (lock.slots === 0 || await act('resize', name, { name, slots: 0 })))
    onWaiters('deny', name, { name, all: true }, waiters(name));
}

async function destroy(lock) {
  const { name } = lock;
  if (await asked({ title: `Destroy ${name}?`, yes: 'Destroy it',
    text: `No client gets a slot of it any more. Waiters fail, ${views.number(lock.waiting)} now. ` +
      `${views.busyWords(lock)} busy: these holders are told, and go on until they release.` }))
    act('destroy', name, { name });
}

function actOnRow(method, row) {
  if (!row || row.state !== 'waiting') tell('The selected row is not a waiter.', true);
  else if (allowed()) onWaiters(method, row.name, { waiter: row.waiter }, [row]);
}

async function evict(row) {
  if (!row || !holds(row)) tell('The selected row is not a holder.', true);
  else if (allowed() && await asked({ title: `Evict ${views.whom(row)} from ${row.name}?`, yes: 'Evict it',
    text: 'The holder is told now. It has 30 s to stop; its lockbroker run ends its command. Then the slot is free.' }))
    act('evict', row.name, { holder: row.waiter });
}

/* An act on the selected lock. */
function onLock(what, ...more) {
  const lock = model.locks.get(view.lock);
  if (!lock) tell('No lock is selected.', true);
  else if (allowed()) what(lock, ...more);
}

$('gate').onclick = () => onLock(gate);
$('emergency').onclick = () => onLock(emergency);
$('destroy').onclick = () => onLock(destroy);
$('deny-all').onclick = () => onLock(denyAll);
$('keys').onclick = () => $('help').showModal();

/* One listener for all rows of a pane. */
$('locks').onclick = (event) => {
  const { item } = event.target.closest('.lock') ?? {}, { act: how } = event.target.dataset;
  if (!item) return;
  focus = locks;
  selectLock(item.name, !event.target.matches('button, input'));
  if (how) step(item, how === 'more');
};
$('rows').onclick = (event) => {
  const { item } = event.target.closest('.row') ?? {}, { act: how } = event.target.dataset;
  if (!item) return;
  focus = rows;
  selectRow(item.waiter, !event.target.matches('button'));
  if (how === 'evict') evict(item);
  else if (how) actOnRow(how, item);
};
$('locks').addEventListener('focusout', ({ target }) => {
  if (target.matches('input')) target.value = views.number(target.closest('.lock').item.slots);
});

/* ---- keys: those of `lockbroker top` ---- */

function move(by) {
  const id = focus.away(by);
  if (!id) return;
  if (focus === locks) selectLock(id, true);
  else selectRow(id, true);
}

function enterPane(pane) {
  focus = pane;
  if (pane.items.length === 0) return;
  if (!pane.nodes.has(pane.selected)) move(1);
  else pane.select(pane.selected, true);
}

function escape() {
  const [id, key] = focus === rows ? ['rows-find', 'rows'] : ['find', 'find'];
  if (view[key]) {
    $(id).value = '';
    $(id).oninput();
    enterPane(focus);
  } else if (focus === rows) enterPane(locks);
  else selectLock('');
}

function enterKey() {
  if (focus === locks) enterPane(rows);
  else rows.nodes.get(view.row)?.querySelector(`[data-act=${holds(model.rows.get(view.row) ?? {}) ? 'evict' : 'grant'}]`)
    .focus();
}

const page = () => Math.max(1, Math.floor(focus.list.parentNode.clientHeight / 36) - 1);
const KEYS = {
  ArrowUp: () => move(-1), k: () => move(-1), ArrowDown: () => move(1), j: () => move(1),
  PageUp: () => move(-page()), PageDown: () => move(page()), Home: () => move(-1e9), End: () => move(1e9),
  Enter: enterKey, Escape: escape,
  '+': () => onLock(step, true), '-': () => onLock(step, false), '=': () => onLock(type), g: () => onLock(gate),
  G: () => actOnRow('grant', model.rows.get(view.row)), d: () => actOnRow('deny', model.rows.get(view.row)),
  D: () => onLock(denyAll), e: () => evict(model.rows.get(view.row)),
  '/': () => $(focus === rows ? 'rows-find' : 'find').focus(), '?': () => $('help').showModal(),
};

document.addEventListener('focusin', (event) => {
  if ($('left').contains(event.target)) focus = locks;
  else if ($('right').contains(event.target)) focus = rows;
});
document.addEventListener('keydown', (event) => {
  const field = event.target.matches('input') ? event.target : null, lock = field?.closest('.lock')?.item;
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector('dialog[open]')) return;
  if (field && event.key === 'Enter' && lock) typed(field, lock);
  else if (field && event.key === 'Enter') enterPane(focus);
  else if (field && event.key === 'Escape' && lock) enterPane(locks);
  else if (field && event.key !== 'Escape') return;
  else if (event.key === 'Enter' && event.target.matches('button, summary')) return;
  else if (KEYS[event.key]) KEYS[event.key]();
  else return;
  event.preventDefault();
});

/* ---- the start ---- */

async function enter() {
  try {
    const answer = await fetch('v1/session'), json = await answer.json();
    session = answer.ok ? json : { why: json.message };
    views.clock.ahead = Date.now() - Date.parse(answer.headers.get('Date'));
  } catch (error) {
    session = { why: `lockbroker-web does not answer (${error.message})` };
  }
  say($('host'), session.host ? `at ${session.host}` : '');
  say($('visitor'), [session.visitor, session.administrator ? 'administrator' : 'viewer'].filter((word) => word).join(', '));
  if (session.version) guard();
  return session.version ?? '';
}

$('legend').replaceChildren(...Object.entries(views.STATES).map(([state, { icon, means }]) => {
  const item = document.createElement('li');
  item.dataset.state = state;
  for (const [className, text] of [['icon', icon], ['word', state], ['means', means]]) {
    const part = document.createElement('span');
    part.className = className;
    part.textContent = text;
    item.append(part, ' ');
  }
  return item;
}));
model = share(`lockbroker ${await enter()}`, receive);
readAddress();
window.addEventListener('hashchange', readAddress);
setInterval(drawRows, 1000);
