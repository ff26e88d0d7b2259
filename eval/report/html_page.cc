#include "eval/report/html_page.h"

namespace nibble::eval {

// Series colours are Okabe and Ito's, which colour-blind readers can tell apart, a little lighter on dark paper.
const std::string_view kPageStyle = R"css(
:root { color-scheme: light;
  --paper: #ffffff; --ink: #1b1f24; --soft: #5b6470; --rule: #d5dae1; --band: #f5f7f9; --link: #0b5cad;
  --warn-paper: #fff6e0; --warn-ink: #6b4700; --best: #e3f1ea; --better: #0072b2; --worse: #d55e00;
  --s0: #0072b2; --s1: #d55e00; --s2: #009e73; --s3: #cc79a7; --s4: #b98a00; --s5: #3a93cc; --s6: #5b6470; --s7: #1b1f24;
  --histogram: #c9d6e3; --palette: #d55e00; }
@media (prefers-color-scheme: dark) { :root:not([data-theme=light]) { color-scheme: dark;
  --paper: #14171b; --ink: #e6e9ed; --soft: #9aa5b1; --rule: #343b44; --band: #1c2127; --link: #7fb8ee;
  --warn-paper: #33290f; --warn-ink: #f1d48a; --best: #173329; --better: #56b4e9; --worse: #f08a4b;
  --s0: #56b4e9; --s1: #f08a4b; --s2: #35c79c; --s3: #e3a3c7; --s4: #e6c14a; --s5: #8fb7ff; --s6: #9aa5b1; --s7: #e6e9ed;
  --histogram: #3b4a5a; --palette: #f08a4b; } }
:root[data-theme=dark] { color-scheme: dark;
  --paper: #14171b; --ink: #e6e9ed; --soft: #9aa5b1; --rule: #343b44; --band: #1c2127; --link: #7fb8ee;
  --warn-paper: #33290f; --warn-ink: #f1d48a; --best: #173329; --better: #56b4e9; --worse: #f08a4b;
  --s0: #56b4e9; --s1: #f08a4b; --s2: #35c79c; --s3: #e3a3c7; --s4: #e6c14a; --s5: #8fb7ff; --s6: #9aa5b1; --s7: #e6e9ed;
  --histogram: #3b4a5a; --palette: #f08a4b; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
header, main, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; border-bottom: 2px solid var(--ink); padding-bottom: 1rem; position: relative; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em; padding-right: 7rem; }
h2 { font-size: 1.35rem; margin: 2.8rem 0 .6rem; }
h3 { font-size: 1.02rem; margin: 1.8rem 0 .5rem; }
p { margin: .4rem 0; } .summary, .caption { color: var(--soft); } .caption { font-size: .86rem; max-width: 50rem; }
nav { font-size: .92rem; margin-top: .7rem; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
a { color: var(--link); text-underline-offset: .15em; }
.skip { position: absolute; left: -99rem; } .skip:focus { left: 1rem; top: .5rem; background: var(--paper); padding: .3rem .6rem; }
.theme { position: absolute; right: 1.25rem; top: 2.6rem; font: inherit; font-size: .85rem; color: var(--ink);
  background: var(--band); border: 1px solid var(--rule); border-radius: 5px; padding: .3rem .7rem; cursor: pointer; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: 2px; }
.warning { background: var(--warn-paper); color: var(--warn-ink); border-left: 4px solid currentColor;
  padding: .45rem .8rem; margin: .7rem 0; font-size: .92rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: .3rem 0 .5rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; min-width: 24rem;
  border-top: 2px solid var(--ink); border-bottom: 2px solid var(--ink); }
th, td { padding: .32rem .75rem; text-align: left; vertical-align: top; }
thead th { border-bottom: 1px solid var(--ink); font-weight: 600; vertical-align: bottom; }
tbody th { font-weight: 400; } tbody tr + tr > * { border-top: 1px solid var(--rule); }
tbody tr:hover > * { background: var(--band); }
th.n, td.n { text-align: right; white-space: nowrap; }
td.w, tbody th { overflow-wrap: anywhere; min-width: 7rem; max-width: 34rem; }
td.best { background: var(--best); } td.best b { font-weight: 700; }
small { display: block; color: var(--soft); font-size: .8rem; }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; text-align: inherit; }
th[aria-sort=ascending] button::after { content: " ↑"; } th[aria-sort=descending] button::after { content: " ↓"; }
figure { margin: 0 0 1.2rem; } figure .scroll { border: 1px solid var(--rule); border-radius: 6px; padding: .6rem; }
svg { display: block; width: 100%; min-width: 36rem; height: auto; font-size: 12px; font-family: inherit; }
svg text { fill: var(--ink); } svg .tick, svg .note { fill: var(--soft); font-size: 11px; } svg .strong { font-weight: 700; fill: var(--ink); }
svg .label { font-size: 12px; } svg .grid { stroke: var(--rule); } svg .axis { stroke: var(--soft); }
svg .front { fill: none; stroke: var(--soft); stroke-width: 1.5; } svg .error { stroke: var(--soft); stroke-width: 1; } svg .reference { stroke: var(--soft); stroke-dasharray: 5 4; }
svg .mark { stroke: currentColor; stroke-width: 1.6; fill: currentColor; } svg .hollow { fill: var(--paper); fill-opacity: .65; }
svg .s0 { color: var(--s0); } svg .s1 { color: var(--s1); } svg .s2 { color: var(--s2); } svg .s3 { color: var(--s3); }
svg .s4 { color: var(--s4); } svg .s5 { color: var(--s5); } svg .s6 { color: var(--s6); } svg .s7 { color: var(--s7); }
svg .series { fill: none; stroke-width: 1.8; stroke: currentColor; }
svg .l0 { color: var(--s0); } svg .l1 { color: var(--s1); } svg .l2 { color: var(--s2); } svg .l3 { color: var(--s3); }
svg .l4 { color: var(--s4); } svg .l5 { color: var(--s5); } svg .l6 { color: var(--s6); } svg .l7 { color: var(--s7); }
svg .bar { opacity: .32; } svg .better { fill: var(--better); } svg .worse { fill: var(--worse); }
svg .histogram { fill: var(--histogram); } svg .palette { stroke: var(--palette); stroke-width: 1.2; }
svg .item { outline: none; cursor: default; } svg .item:focus-visible > * { stroke: var(--ink); stroke-width: 2.5; }
svg .item:focus-visible > text { stroke: none; text-decoration: underline; }
details { margin: .2rem 0 .6rem; font-size: .92rem; } summary { cursor: pointer; color: var(--link); width: fit-content; }
#tip { position: fixed; z-index: 9; max-width: 22rem; background: var(--ink); color: var(--paper); font-size: .84rem;
  line-height: 1.4; padding: .4rem .6rem; border-radius: 5px; pointer-events: none; overflow-wrap: anywhere; }
footer { color: var(--soft); font-size: .85rem; padding-top: 2rem; padding-bottom: 3rem; }
@media print {
  :root, :root[data-theme=dark], :root:not([data-theme=light]) { color-scheme: light;
    --paper: #fff; --ink: #000; --soft: #444; --rule: #ccc; --band: #fff; --link: #000; --warn-paper: #fff; --warn-ink: #000;
    --best: #eee; --better: #0072b2; --worse: #d55e00; --s0: #0072b2; --s1: #d55e00; --s2: #009e73; --s3: #cc79a7;
    --s4: #b98a00; --s5: #3a93cc; --s6: #5b6470; --s7: #000; --histogram: #c9d6e3; --palette: #d55e00; }
  body { font-size: 9.5pt; } header, main, footer { max-width: none; padding: 0; } h1 { padding-right: 0; }
  .theme, nav, .skip, #tip, details { display: none; } .scroll { overflow: visible; } svg { min-width: 0; }
  table { min-width: 0; font-size: 8pt; } small, .caption { font-size: 7.5pt; } th, td { padding: .15rem .4rem; }
  thead { display: table-header-group; break-inside: avoid; } th button { display: contents; }  /* repeated on every page */
  figure, tr, h2, h3 { break-inside: avoid; } h2, h3, h2 + p { break-after: avoid; } .caption { break-before: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } @page { margin: 16mm; } }
)css";

const std::string_view kPageScript = R"js(
'use strict';
const root = document.documentElement, button = document.querySelector('.theme');
const dark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
const label = () => { button.textContent = dark() ? 'Light page' : 'Dark page'; };
button.addEventListener('click', () => { root.dataset.theme = dark() ? 'light' : 'dark'; label(); });
button.hidden = false; label();

const tip = document.getElementById('tip');
const show = item => {
  tip.textContent = item.getAttribute('aria-label'); tip.hidden = false;
  const box = item.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left + box.width / 2 - own.width / 2), innerWidth - own.width - 8);
  tip.style.left = left + 'px';
  tip.style.top = (box.top > own.height + 12 ? box.top - own.height - 8 : box.bottom + 8) + 'px';
};
for (const item of document.querySelectorAll('svg .item')) {
  item.querySelector('title').remove();  // the tooltip below says the same, at once
  item.addEventListener('mouseenter', () => show(item));
  item.addEventListener('focus', () => show(item));
  for (const end of ['mouseleave', 'blur']) item.addEventListener(end, () => { tip.hidden = true; });
}
addEventListener('keydown', event => { if (event.key === 'Escape') tip.hidden = true; });

const number = text => { const found = text.replace('−', '-').match(/^[-+]?[\d.]+(e[-+]?\d+)?/); return found ? +found[0] : NaN; };
for (const table of document.querySelectorAll('table')) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const press = document.createElement('button');
    press.type = 'button'; press.append(...head.childNodes); head.append(press);
    press.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') === 'ascending';
      for (const other of heads) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const key = row => row.cells[column].firstChild ? row.cells[column].textContent.trim() : '';
      const order = (a, b) => {
        const x = number(key(a)), y = number(key(b));
        if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
        return isNaN(x) ? key(a).localeCompare(key(b)) : x - y;
      };
      body.append(...[...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)));
    });
  });
}
)js";

}  // namespace nibble::eval
