// The style sheet of the pages.
#ifndef BALLAST_REPORT_CHART_STYLE_H_
#define BALLAST_REPORT_CHART_STYLE_H_

namespace ballast::report {

/// All rules except the colour ramp, see colours.h.
inline constexpr const char* kStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #fbfaf7; --card: #ffffff; --ink: #1d2025; --soft: #5a6069; --rule: #dfdcd4; --grid: #ebe9e3;
  --band: #f6efe0; --hover: #1d202514; --accent: #0a5c99; --code: #f1efe9;
  --s0: #0a67ad; --s1: #c24e08; --s2: #00805d; --s3: #a14488; --s4: #98700a; --s5: #6a6f77;
  --serif: "Iowan Old Style", "Palatino Linotype", Palatino, "Source Serif 4", Charter, Georgia, "Liberation Serif", serif;
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", "DejaVu Sans Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14161a; --card: #1a1d22; --ink: #e7e5e0; --soft: #a3a8b0; --rule: #32363d; --grid: #282c32;
    --band: #2b271f; --hover: #ffffff1a; --accent: #7fbdf0; --code: #24282e;
    --s0: #6cb6ee; --s1: #f2935a; --s2: #4fc3a1; --s3: #dc93c1; --s4: #d9b24c; --s5: #9ba1a9;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink); font: 1rem/1.6 var(--sans); overflow-wrap: break-word; }
main { max-width: 62rem; margin: 0 auto; padding: clamp(1.25rem, 4vw, 3.5rem) clamp(0.75rem, 4vw, 2.5rem) 4rem; }
header { max-width: 46rem; padding: 0 0.25rem; }
.eyebrow { margin: 0 0 0.75rem; color: var(--soft); font-size: 0.9rem; }
.eyebrow strong { color: var(--ink); }
h1 { margin: 0 0 1rem; font: 600 clamp(1.6rem, 1.1rem + 2.2vw, 2.5rem)/1.18 var(--serif); letter-spacing: -0.01em;
     text-wrap: balance; }
h2 { margin: 0 0 0.5rem; font: 600 1.35rem/1.3 var(--serif); text-wrap: balance; }
p { margin: 0 0 1rem; max-width: 44rem; }
.provenance, .none { color: var(--soft); }
.source { overflow-wrap: anywhere; }
code { font: 0.875em/1.4 var(--mono); background: var(--code); border-radius: 0.25em; padding: 0.1em 0.35em;
       overflow-wrap: anywhere; unicode-bidi: isolate; }
.facts { display: flex; flex-wrap: wrap; gap: 1px; margin: 2rem 0;
         background: var(--rule); border: 1px solid var(--rule); border-radius: 0.6rem; overflow: hidden; }
.facts div { background: var(--card); padding: 0.9rem 1.1rem; display: flex; flex-direction: column-reverse;
             justify-content: flex-end; flex: 1 1 40%; }
@media (min-width: 640px) { .facts div { flex-basis: 20%; } }
.facts dt { color: var(--soft); font-size: 0.875rem; line-height: 1.4; }
.facts dd { margin: 0; font: 600 1.6rem/1.3 var(--serif); font-variant-numeric: lining-nums; }
section { margin: 0 0 1.25rem; padding: clamp(1rem, 3vw, 1.75rem); background: var(--card);
          border: 1px solid var(--rule); border-radius: 0.6rem; }
section > svg { display: block; width: 100%; height: auto; }
section > svg.wide + svg { margin-top: 1.5rem; }
section > :last-child { margin-bottom: 0; }
svg.narrow { max-width: 30rem; }
.wide { display: none !important; }
@media (min-width: 800px) { .wide { display: block !important; } .narrow { display: none !important; } }
text { font: 12px var(--sans); fill: var(--soft); }
text.code, text.mark { font: 11px var(--mono); white-space: pre; unicode-bidi: isolate; }
text.mark { fill: var(--ink); font-weight: 600; }
text.name { fill: var(--ink); }
text.middle { text-anchor: middle; }
text.end { text-anchor: end; }
.tick, table { font-variant-numeric: tabular-nums lining-nums; }
.grid { stroke: var(--grid); }
.axis, .pointer { stroke: var(--soft); }
.frame { fill: none; stroke: var(--rule); }
.band { fill: var(--band); }
.cell { shape-rendering: crispEdges; }
.hover { fill: transparent; }
.hover:hover { fill: var(--hover); stroke: var(--ink); stroke-width: 0.75; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.dashed { stroke-dasharray: 2 5; }
.line.s0 { stroke: var(--s0); } .line.s1 { stroke: var(--s1); } .line.s2 { stroke: var(--s2); }
.line.s3 { stroke: var(--s3); } .line.s4 { stroke: var(--s4); } .line.s5 { stroke: var(--s5); }
.dot.s0 { fill: var(--s0); } .dot.s1 { fill: var(--s1); } .dot.s2 { fill: var(--s2); }
.dot.s3 { fill: var(--s3); } .dot.s4 { fill: var(--s4); } .dot.s5 { fill: var(--s5); }
.frontier { stroke-width: 1.5; opacity: 0.55; }
.point { outline: none; }
.point .halo { fill: transparent; }
.point:hover .halo, .point:focus-visible .halo { fill: var(--hover); stroke: var(--ink); stroke-width: 0.75; }
.tip { position: fixed; z-index: 1; max-width: 24rem; padding: 0.5rem 0.75rem; background: var(--card); color: var(--ink);
       border: 1px solid var(--soft); border-radius: 0.4rem; font-size: 0.875rem; line-height: 1.45; white-space: pre-wrap;
       pointer-events: none; }
.legend { display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; margin: 0 0 0.75rem; padding: 0; list-style: none;
          font-size: 0.875rem; line-height: 1.4; }
.legend li { display: flex; align-items: baseline; gap: 0.5rem; min-width: 0; overflow-wrap: anywhere; }
.key { flex: none; width: 26px; height: 10px; }
.scroll { overflow-x: auto; margin: 0 0 1rem; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; font-size: 0.9rem; line-height: 1.4; }
caption { text-align: left; padding: 0.5rem 0; font-weight: 600; }
th, td { padding: 0.35rem 0.9rem 0.35rem 0; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 500; font-size: 0.8125rem; vertical-align: bottom; }
th, td { white-space: nowrap; }
.figure-cell { text-align: right; }
details { margin: 0.5rem 0 0; }
summary { cursor: pointer; color: var(--accent); font-size: 0.9rem; padding: 0.25rem 0; }
.tables { display: flex; flex-wrap: wrap; gap: 0 3rem; }
.tables > * { min-width: 0; }
.plan { margin: 0; max-width: 44rem; }
.plan dt { margin-top: 1rem; font-weight: 600; }
.plan dt code { font-weight: 400; }
.plan dd { margin: 0.15rem 0 0; }
footer { color: var(--soft); font-size: 0.875rem; padding: 0.5rem 0.25rem; }
@media print { section { break-inside: avoid; } }
)css";

}  // namespace ballast::report

#endif  // BALLAST_REPORT_CHART_STYLE_H_
