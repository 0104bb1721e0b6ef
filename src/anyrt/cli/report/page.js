const facts = JSON.parse(document.getElementById('facts').textContent);
const $ = (q, e) => (e || document).querySelector(q), all = q => [...document.querySelectorAll(q)];
const kernel = Object.fromEntries(facts.kernels.map(k => [k.name, k]));
const layer = Object.fromEntries(facts.layers.map(l => [l.name, l]));
const detail = $('#detail');
function text(parent, tag, content) { const e = parent.appendChild(document.createElement(tag)); e.textContent = content; return e; }
function fold(title, content) {
  if (!content) return;
  const d = detail.appendChild(document.createElement('details'));
  text(d, 'summary', title); text(d, 'pre', content);
}
function show(kind, name) {
  const x = (kind === 'kernel' ? kernel : layer)[name];
  if (!x) return;
  detail.replaceChildren(); detail.hidden = false;
  const close = text(detail, 'button', 'close'); close.id = 'close'; close.onclick = () => detail.hidden = true;
  text(detail, 'h2', kind + ' ' + name);
  const plain = Object.entries(x).filter(([k, v]) => !['steps', 'loops', 'assembly', 'details', 'name'].includes(k));
  text(detail, 'p', plain.map(([k, v]) => k + ': ' + (Array.isArray(v) ? v.join(', ') : v)).join('; '));
  if (x.details) text(detail, 'p', Object.entries(x.details).map(([k, v]) => k + ' = ' + v).join('; '));
  fold('steps of its strategy', x.steps); fold('loops', x.loops); fold('assembly', x.assembly);
  if (kind === 'layer') x.kernels.forEach(n => { const b = text(detail, 'button', 'kernel ' + n); b.onclick = () => show('kernel', n); });
  all('.on').forEach(e => e.classList.remove('on'));
  all('tr.row').filter(r => r.dataset.name === name).forEach(r => r.classList.add('on'));
  all('#drawing g.kernel').filter(g => $('title', g).textContent === name).forEach(g => g.classList.add('on'));
}
all('tr.row').forEach(r => r.onclick = () => show(r.dataset.kind, r.dataset.name));
all('#drawing g').forEach(g => {
  const title = $('title', g); if (!title) return;
  g.addEventListener('click', () => {
    const name = title.textContent.split('\n')[0].replace(/ × \d+$/, '');
    show(g.classList.contains('kernel') ? 'kernel' : 'layer', name);
  });
});
all('th').forEach(h => h.onclick = () => {
  const body = h.closest('table').tBodies[0], n = h.cellIndex, down = h.dataset.down !== '1';
  h.dataset.down = down ? '1' : '0';
  const key = r => { const c = r.cells[n]; return 'v' in c.dataset ? +c.dataset.v : c.textContent; };
  const rows = [...body.rows].sort((a, b) => key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0);
  body.replaceChildren(...(down ? rows.reverse() : rows));
});
$('#search').oninput = e => {
  const part = e.target.value.toLowerCase();
  all('tr.row').forEach(r => r.hidden = part && !r.dataset.name.toLowerCase().includes(part));
  all('#drawing svg > g > g').forEach(g => {
    const t = $('title', g); g.classList.toggle('dim', !!part && !(t && t.textContent.toLowerCase().includes(part)));
  });
};
const box = $('#drawing'), svg = box && $('svg', box); let x = 0, y = 0, z = 1, held = null;
if (svg) {
  const put = () => svg.style.transform = `translate(${x}px, ${y}px) scale(${z})`;
  z = Math.min(1, box.clientWidth / svg.width.baseVal.value || 1); put();
  box.onwheel = e => {
    e.preventDefault(); const r = box.getBoundingClientRect(), f = Math.exp(-e.deltaY / 400);
    const px = e.clientX - r.left, py = e.clientY - r.top;
    x = px - (px - x) * f; y = py - (py - y) * f; z *= f; put();
  };
  box.onpointerdown = e => held = [e.clientX - x, e.clientY - y];
  window.addEventListener('pointerup', () => held = null);
  window.addEventListener('pointermove', e => { if (held) { x = e.clientX - held[0]; y = e.clientY - held[1]; put(); } });
}
