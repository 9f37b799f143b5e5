"""How our own pages look: light and dark, from 320 pixels on, without scripts or other files."""

from __future__ import annotations

STYLE = """
:root{--page:#f5f5f4;--card:#fff;--text:#1c1b1a;--soft:#63605c;--line:#dedbd7;--field:#8b8681;--main:#b4472e;--over:#993a25;
--on:#fff;--bad:#b42318;--badback:#fdf0ee;--noteback:#f3f2f0;--shadow:0 1px 2px #0000000d,0 8px 24px #0000000f}
@media(prefers-color-scheme:dark){:root{--page:#161514;--card:#1f1e1c;--text:#eceae7;--soft:#a8a39d;--line:#37342f;--field:#77716a;
--main:#e0775c;--over:#e98d75;--on:#1c100c;--bad:#ff9c8f;--badback:#3a1d18;--noteback:#2a2825;--shadow:0 8px 24px #0006}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;padding:24px 16px;display:flex;flex-direction:column;align-items:center;background:var(--page);
color:var(--text);font:14px/20px Inter,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere}
.brand{display:flex;align-items:center;gap:8px;margin:max(24px,12vh) 0 20px;font-weight:600;font-size:16px;letter-spacing:-.01em}
.brand svg{width:24px;height:24px;fill:var(--main)}
main{width:100%;max-width:384px;padding:24px;background:var(--card);border:1px solid var(--line);border-radius:6px;
box-shadow:var(--shadow)}
h1{margin:0 0 16px;font-size:20px;line-height:28px;font-weight:600;letter-spacing:-.01em}
p{margin:0 0 16px}
label{display:block;margin-bottom:4px;font-weight:500}
input{width:100%;height:36px;padding:0 10px;font:inherit;color:inherit;background:transparent;border:1px solid var(--field);
border-radius:6px}
.help{margin:4px 0 16px;color:var(--soft);font-size:13px;line-height:18px}
button,.button{display:flex;align-items:center;justify-content:center;width:100%;min-height:36px;padding:6px 14px;font:inherit;
font-weight:500;color:inherit;text-decoration:none;text-align:center;background:transparent;border:1px solid var(--field);
border-radius:6px;cursor:pointer}
button+button{margin-top:8px}
button:hover,.button:hover{background:var(--noteback)}
.main{color:var(--on);background:var(--main);border-color:var(--main)}
.main:hover{background:var(--over);border-color:var(--over)}
:focus-visible{outline:2px solid var(--main);outline-offset:2px}
.or{display:flex;align-items:center;gap:12px;margin:16px 0;color:var(--soft);font-size:13px}
.or:before,.or:after{content:"";flex:1;height:1px;background:var(--line)}
.wrong,.note{padding:8px 12px;border-radius:6px;background:var(--noteback)}
.wrong{color:var(--bad);background:var(--badback)}
.wrong:before{content:"\\25B2\\FE0E  "}
""".replace("\n", "")

MARK = (
    '<svg viewBox="0 0 24 24" aria-hidden="true"><rect x="2" y="4" width="9" height="4.5" rx="1"/>'
    '<rect x="13" y="4" width="9" height="4.5" rx="1"/><rect x="2" y="10" width="4" height="4.5" rx="1"/>'
    '<rect x="8" y="10" width="8" height="4.5" rx="1"/><rect x="18" y="10" width="4" height="4.5" rx="1"/>'
    '<rect x="2" y="16" width="9" height="4.5" rx="1"/><rect x="13" y="16" width="9" height="4.5" rx="1"/></svg>'
)
