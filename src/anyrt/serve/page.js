'use strict';
const $ = id => document.getElementById(id);
const EVERY = 5000;     // milliseconds between two looks at the statistics
const SHOWN = 200;      // numbers of an output
const MOST = 4e6;       // elements of an input that is filled here
const WHOLE = /^U?INT/;
const models = new Map();   // metadata by name and version
let token = '', timer = 0;

function add(parent, tag, text, name) {
  const e = parent.appendChild(document.createElement(tag));
  if (text !== undefined) e.textContent = text;
  if (name) e.className = name;
  return e;
}
function fail(text) { $('problem').textContent = text; $('problem').hidden = !text; }

async function ask(path, body) {
  const headers = token ? {Authorization: 'Bearer ' + token} : {};
  const more = body === undefined ? {} : {method: 'POST', body: JSON.stringify(body)};
  const answer = await fetch(path, {headers, credentials: 'omit', cache: 'no-store', redirect: 'error', ...more});
  const text = await answer.text();
  if (answer.status === 401) { $('access').hidden = false; $('main').hidden = true; throw new Error('The server asks for a token.'); }
  if (!answer.ok) {
    let said = text;
    try { said = JSON.parse(text).error; } catch { /* no JSON */ }
    throw new Error(answer.status + ': ' + said);
  }
  return text;
}
const read = async (path, body) => JSON.parse(await ask(path, body));
const place = (name, version) => 'v2/models/' + encodeURIComponent(name) + '/versions/' + encodeURIComponent(version);

// Numbers of requests up to each bound in seconds, by model and version, from the page of metrics.
function histograms(text) {
  const found = new Map();
  for (const line of text.split('\n')) {
    const m = /^anyrt_request_duration_seconds_bucket\{(.*)\} (\S+)$/.exec(line);
    if (!m) continue;
    const labels = Object.fromEntries([...m[1].matchAll(/(\w+)="([^"]*)"/g)].map(l => [l[1], l[2]]));
    const key = labels.model + '/' + labels.version;
    if (!found.has(key)) found.set(key, []);
    found.get(key).push([labels.le === '+Inf' ? Infinity : +labels.le, +m[2]]);
  }
  return found;
}
const duration = s => s === Infinity ? 'more' : s < 1 ? +(s * 1e3).toPrecision(3) + ' ms' : +s.toPrecision(3) + ' s';
function within(buckets, part) {
  const all = buckets.length ? buckets.at(-1)[1] : 0;
  return all ? duration(buckets.find(b => b[1] >= part * all)[0]) : '';
}
function draw(parent, buckets) {
  const space = 'http://www.w3.org/2000/svg', counts = buckets.map((b, k) => b[1] - (k ? buckets[k - 1][1] : 0));
  const most = Math.max(1, ...counts), svg = parent.appendChild(document.createElementNS(space, 'svg'));
  svg.setAttribute('width', 12 * counts.length); svg.setAttribute('height', 30);
  counts.forEach((n, k) => {
    const bar = svg.appendChild(document.createElementNS(space, 'rect')), high = 30 * n / most;
    for (const [name, value] of Object.entries({class: 'bar', x: 12 * k, width: 11, y: 30 - high, height: high})) bar.setAttribute(name, value);
    bar.appendChild(document.createElementNS(space, 'title')).textContent = 'up to ' + duration(buckets[k][0]) + ': ' + n;
  });
}

const port = p => p.name + ': ' + p.datatype + ' [' + p.shape.join(', ') + ']';
async function look() {
  clearTimeout(timer);
  try {
    const server = await read('v2'), index = await read('v2/repository/index', {});
    const stats = new Map((await read('v2/models/stats')).model_stats.map(s => [s.name + '/' + s.version, s]));
    const latencies = histograms(await ask('metrics')), ready = index.filter(e => e.state === 'READY');
    for (const e of ready) {
      const key = e.name + '/' + e.version;
      if (!models.has(key)) models.set(key, await read(place(e.name, e.version)));
    }
    const gone = [...models.keys()].filter(key => !ready.some(e => e.name + '/' + e.version === key));
    gone.forEach(key => models.delete(key));
    $('version').textContent = server.version;
    $('access').hidden = true; $('main').hidden = false;
    $('models').replaceChildren();
    for (const e of index) row(e, models.get(e.name + '/' + e.version), stats.get(e.name + '/' + e.version), latencies.get(e.name + '/' + e.version) || []);
    choices([...models.keys()]);
    fail('');
  } catch (error) { fail(error.message); }
  clearTimeout(timer);   // of another look, which has ended meanwhile
  if ($('access').hidden) timer = setTimeout(() => document.hidden ? wait() : look(), EVERY);
}
function wait() { document.addEventListener('visibilitychange', look, {once: true}); }
function row(entry, model, stats, buckets) {
  const tr = add($('models'), 'tr');
  add(tr, 'td', entry.name); add(tr, 'td', entry.version);
  add(tr, 'td', entry.state + (entry.reason ? ': ' + entry.reason : ''), entry.state === 'READY' ? '' : 'bad');
  for (const ports of [model ? model.inputs : [], model ? model.outputs : []]) add(tr, 'td', ports.map(port).join('; '));
  const counts = stats ? [stats.inference_stats.success.count, stats.inference_stats.fail.count, stats.inference_count, stats.execution_count] : ['', '', '', ''];
  for (const n of counts) add(tr, 'td', n, 'n');
  add(tr, 'td', within(buckets, 0.5), 'n'); add(tr, 'td', within(buckets, 0.99), 'n');
  draw(add(tr, 'td'), buckets);
}

function choices(keys) {
  const before = [...$('model').options].map(o => o.value);
  if (before.join('\n') === keys.join('\n')) return;
  const chosen = $('model').value;
  $('model').replaceChildren();
  for (const key of keys) add($('model'), 'option', key);
  if (keys.includes(chosen)) $('model').value = chosen;
  fields();
}
function fields() {
  $('inputs').replaceChildren();
  const model = models.get($('model').value);
  for (const p of model ? model.inputs : []) {
    const shape = add(add($('inputs'), 'label', port(p) + '; shape '), 'input');
    shape.value = JSON.stringify(p.shape.map(n => n < 0 ? 1 : n));
    const data = add(add($('inputs'), 'label', 'data: zeros, random, or JSON'), 'textarea');
    data.value = WHOLE.test(p.datatype) || p.datatype === 'BOOL' ? 'zeros' : 'random';
  }
}
function filled(text, shape, datatype) {
  const kind = text.trim();
  if (kind !== 'zeros' && kind !== 'random') return JSON.parse(text);
  const count = shape.reduce((a, b) => a * b, 1);
  if (!(count <= MOST)) throw new Error('more than ' + MOST + ' elements are not filled here');
  const one = kind === 'zeros' ? () => 0 : WHOLE.test(datatype) ? () => Math.floor(2 * Math.random()) : () => 2 * Math.random() - 1;
  return Array.from({length: count}, datatype === 'BOOL' ? () => one() > 0 : one);
}
async function infer() {
  const key = $('model').value, model = models.get(key);
  try {
    if (!model) throw new Error('no model is ready');
    const fields = [...$('inputs').querySelectorAll('input, textarea')].map(e => e.value);
    const inputs = model.inputs.map((p, k) => {
      const shape = JSON.parse(fields[2 * k]);
      if (!Array.isArray(shape)) throw new Error(p.name + ': wanted a shape like [1, 3]');
      return {name: p.name, datatype: p.datatype, shape, data: filled(fields[2 * k + 1], shape, p.datatype)};
    });
    const start = performance.now(), answer = await read(place(model.name, key.slice(model.name.length + 1)) + '/infer', {inputs});
    const lines = answer.outputs.map(o => port(o) + '\n' + o.data.slice(0, SHOWN).join(', ') + (o.data.length > SHOWN ? ', …' : ''));
    $('answer').textContent = (performance.now() - start).toFixed(1) + ' ms\n' + lines.join('\n');
    $('answer').className = '';
  } catch (error) { $('answer').textContent = error.message; $('answer').className = 'bad'; }
  look();
}
$('model').onchange = fields;
$('infer').onsubmit = event => { event.preventDefault(); infer(); };
$('access').onsubmit = event => { event.preventDefault(); token = $('token').value; $('token').value = ''; look(); };
look();
