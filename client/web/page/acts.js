/*
 * The acts of an administrator: each as a request and as a command of lockbroker. It owns the dialog that asks before
 * some of them, and the line that says their results.
 */
import { say } from './pane.js';

const $ = (id) => document.getElementById(id);

/* ---- as commands ---- */

function quote(word) {
  return /^[\w.:/@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

const WORDS = {
  resize: ({ name, slots, add, remove }) => [name, add ? `+${add}` : remove ? `-${remove}` : slots],
  grant: ({ waiter }) => [waiter],
  deny: ({ name, waiter }) => (name ? ['--all', name] : [waiter]),
  evict: ({ holder }) => [holder],
};

/* Ids come from other programs: a control character in one of them would end the line in a shell. */
export function command(method, params) {
  const words = (WORDS[method] ?? (({ name, slots }) => (slots === undefined ? [name] : [name, slots])))(params).map(String);
  if (words.some((word) => /[\p{Cc}\p{Cf}]/u.test(word))) return '';
  return ['lockbroker', method, ...words.map(quote)].join(' ');
}

/* Works without a secure context, too. */
async function copy(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    getSelection().selectAllChildren(code);
    document.execCommand('copy');
  }
  button.textContent = 'Copied';
  setTimeout(() => (button.textContent = 'Copy'), 1500);
}

/* A command with its button. */
export function commandNode(text) {
  const item = $('command').content.firstElementChild.cloneNode(true), [code, button] = item.children;
  code.textContent = text;
  button.ariaLabel = `Copy ${text}`;
  button.onclick = () => copy(code, button);
  return item;
}

/* ---- what is said ---- */

export function tell(text, error = false, done = '') {
  $('said').className = error ? 'error' : '';
  say($('said-text'), text);
  $('said-command').replaceChildren(...(done ? [commandNode(done)] : []));
}

/* ---- the dialog ---- */

/* question: {title, text, steps, list, after, yes}. True: the visitor confirms. */
export function ask(question) {
  const dialog = $('ask');
  const lines = (id, texts) => $(id).replaceChildren(...(texts ?? []).map((text) => {
    const item = document.createElement('li');
    item.textContent = text;
    return item;
  }));
  say($('ask-title'), question.title);
  say($('ask-text'), question.text ?? '');
  say($('ask-yes'), question.yes);
  lines('ask-steps', question.steps);
  lines('ask-list', question.list);
  say($('ask-after'), question.after ?? '');
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === 'yes');
  });
}

/* ---- requests ---- */

export async function post(method, params) {
  try {
    const answer = await fetch(`v1/${method}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-Lockbroker': '1' },
      body: JSON.stringify(params),
    });
    const json = await answer.json();
    return answer.ok ? { result: json } : { error: json.message ?? `status ${answer.status}` };
  } catch (error) {
    return { error: `no answer from lockbroker-web; the change may have been made (${error.message})` };
  }
}

function outcome(method, name, result) {
  const silent = result.silent_hosts?.length ? `; no answer from ${result.silent_hosts.join(', ')}` : '';
  if (method === 'grant') return `${name}: granted, without a slot`;
  if (method === 'deny') return `${name}: cancelled ${result.denied} waiter${result.denied === 1 ? '' : 's'}${silent}`;
  if (method === 'evict') return `${name}: evicted ${result.evicted} holder${result.evicted === 1 ? '' : 's'}${silent}`;
  if (method === 'destroy') return `${name} is destroyed`;
  if (result.slots === 0) return `${name} is closed: all wait`;
  const slots = result.slots === 'unlimited' ? '∞' : result.slots;
  return `${name}: slots ${slots}${result.warning ? `; ${result.warning}` : ''}`;
}

/* True: it is done. */
export async function act(method, name, params) {
  const done = command(method, params);
  tell(`${name}: requested`);
  const { result, error } = await post(method, params);
  if (error) tell(`${name}: ${error}`, true, done);
  else tell(outcome(method, name, result), false, done);
  return !error;
}
