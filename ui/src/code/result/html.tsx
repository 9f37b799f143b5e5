import { Button } from "@mantine/core";
import { useState } from "react";

/** HTML that code on a cluster has made: in a frame without scripts, forms, windows and this page's origin, so that it can do nothing
 * as the user who looks at it. The page's content security policy counts in it as well: it loads nothing from elsewhere. */
export function HtmlResult({ html }: { html: string }) {
  const [text, setText] = useState(false);
  const scheme = document.documentElement.dataset.mantineColorScheme === "dark" ? "dark" : "light";
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')?.content ?? "";
  const style = `:root { color-scheme: ${scheme}; font: 13px/1.5 system-ui, sans-serif; }
    body { margin: 8px; } table { border-collapse: collapse; } th, td { padding: 3px 8px; border: 1px solid #8888; }
    img { max-width: 100%; }`;
  const whole = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Result</title><style nonce="${nonce}">${style}</style></head><body>${html}</body></html>`;
  return (
    <>
      {text ? (
        <div className="printed">{textOf(html)}</div>
      ) : (
        <iframe className="html" title="HTML result" sandbox="" referrerPolicy="no-referrer" srcDoc={whole} />
      )}
      <Button variant="subtle" color="gray" aria-pressed={text} onClick={() => setText(!text)}>
        {text ? "Show as HTML" : "Show as text"}
      </Button>
    </>
  );
}

/** The text of HTML. The parsed document is never shown, and loads and runs nothing. */
export const textOf = (html: string) => new DOMParser().parseFromString(html, "text/html").body.textContent ?? "";
