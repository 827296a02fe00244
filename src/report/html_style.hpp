// SPDX-License-Identifier: Apache-2.0
// The look of the HTML report: light and dark, wide and narrow.
#pragma once

#include <string_view>

namespace tessera::report {

// Stage colours: Okabe and Ito's palette, told apart with any colour vision; brighter on dark.
inline constexpr std::string_view k_style = R"css(
:root{color-scheme:light dark;--bg:#fbfbf9;--card:#fff;--ink:#1c1f23;--soft:#5c636b;--line:#dcdfe3;--good:#0a7d4f;--warn:#8a5a00;--warnbg:#fff4dc;
--c0:#0072b2;--c1:#e69f00;--c2:#009e73;--c3:#cc79a7;--c4:#d55e00;--c5:#56b4e9;--c6:#8b7a00;--c7:#6b6f76}
@media(prefers-color-scheme:dark){:root{--bg:#14171a;--card:#1c2024;--ink:#e6e8ea;--soft:#9aa3ac;--line:#343a41;--good:#4cc38a;--warn:#f0c36a;--warnbg:#33290f;
--c0:#3d9fdc;--c1:#f0b429;--c2:#2fbf94;--c3:#dc92bd;--c4:#ee7d35;--c5:#86cdf5;--c6:#c9b735;--c7:#9aa0a8}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:24px 20px 64px}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 4px}h2{font-size:1.2rem;margin:0}h3{font-size:1rem;margin:28px 0 8px}
p{margin:6px 0}a{color:var(--c0)}.soft{color:var(--soft)}
.note{background:var(--warnbg);color:var(--warn);border-radius:6px;padding:8px 12px;margin:10px 0}
section{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:18px 20px;margin:22px 0}
summary{cursor:pointer}section>details>summary h2{display:inline}section>details>summary .soft{margin-left:8px}
.figures{display:flex;flex-wrap:wrap;gap:10px;margin:14px 0;padding:0;list-style:none}
.figures li{flex:1 1 130px;border:1px solid var(--line);border-radius:8px;padding:8px 12px}
.figures b{display:block;font-size:1.15rem;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}.figures li>span{color:var(--soft);font-size:.85rem}
.good{color:var(--good)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 16px;margin:10px 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;padding:5px 16px 5px 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
th{color:var(--soft);font-weight:600;overflow-wrap:normal}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.bar{display:block;height:6px;margin-top:5px;border-radius:3px;background:linear-gradient(90deg,var(--c0) var(--w),var(--line) var(--w))}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:10px 0;padding:0;list-style:none;font-size:.9rem}
.legend svg{vertical-align:-2px;margin-right:6px}
figure{margin:14px 0 20px}figcaption{margin-bottom:6px}
.chart{display:grid;grid-template-columns:max-content 1fr;gap:0 8px}
.labels{text-align:right;color:var(--soft);font-size:10px;line-height:1}.labels span{display:flex;align-items:center;justify-content:flex-end;white-space:nowrap}
.plot{min-width:0}.plot>svg{display:block;width:100%;background:color-mix(in srgb,var(--line) 30%,transparent)}
.axis{position:relative;height:20px;font-size:11px;color:var(--soft)}.axis span{position:absolute;top:3px;white-space:nowrap}.axis .end{transform:translateX(-100%)}
.tiles{margin:10px 0}.tiles canvas{display:block;width:100%;background:color-mix(in srgb,var(--line) 30%,transparent);cursor:crosshair;touch-action:pan-y}
.tiles output{display:block;margin:6px 0;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.grid{stroke:var(--ink);stroke-opacity:.13}.edge{fill:none;stroke:var(--card);stroke-width:1}
.plot text{font-size:11px;text-anchor:middle;fill:#fff;paint-order:stroke;stroke:#0006;stroke-width:2px}
.s0{fill:var(--c0)}.s1{fill:var(--c1)}.s2{fill:var(--c2)}.s3{fill:var(--c3)}.s4{fill:var(--c4)}.s5{fill:var(--c5)}.s6{fill:var(--c6)}.s7{fill:var(--c7)}
.w0{fill:url(#w0)}.w1{fill:url(#w1)}.w2{fill:url(#w2)}.w3{fill:url(#w3)}.w4{fill:url(#w4)}.w5{fill:url(#w5)}.w6{fill:url(#w6)}.w7{fill:url(#w7)}
.gap{fill:var(--card)}.set{opacity:.55}.store{filter:brightness(.72)}
footer{color:var(--soft);font-size:.85rem}
@media(max-width:680px){main{padding:16px 12px 40px}section{padding:14px 12px}h1{font-size:1.3rem}.plot text{display:none}
dl{grid-template-columns:1fr}dd{margin-bottom:6px}
table,tbody,tr,td{display:block}thead{display:none}tr{border-bottom:1px solid var(--line);padding:8px 0}
td,td.n{display:flex;gap:12px;justify-content:space-between;text-align:right;border:0;padding:1px 0;white-space:normal}
td::before{content:attr(data-label);color:var(--soft);flex:none;text-align:left}td:first-child{font-weight:600}
td.long{display:block;text-align:left}td.long::before{display:block}.bar{flex:1;max-width:45%;margin-top:8px}}
)css";

}  // namespace tessera::report
